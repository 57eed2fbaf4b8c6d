-- holder: the job that holds a unique key.
--
-- KEYS[1]  the namespace prefix
-- ARGV     COMMAND, NOW, key
-- Returns  its jid, or nil
-- Errors   Holder()
-- Cost     2 commands
-- For      Go
-- Repeat   safe

return (holder_of(required('Holder', 'key', ARGV[3])))
