-- workersCount: the number of workers, including the ones not seen for long. For clients in PHP.
--
-- KEYS[1]  the namespace prefix
-- ARGV     COMMAND, NOW
-- Returns  an integer
-- Errors   none
-- Cost     1 command
-- For      PHP
-- Repeat   safe

return call('zcard', prefix .. 'workers')
