-- workersCount: the number of workers, including workers not seen for long. For clients in PHP.
--
-- Args     none
-- Returns  an integer
-- Cost     1 command
-- For      PHP
-- Repeat   safe

return call('zcard', prefix .. 'workers')
