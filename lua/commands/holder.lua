-- holder: the job that holds a unique key.
--
-- Args     key
-- Returns  its jid, or nil
-- Errors   Holder()
-- Cost     2 commands
-- For      Go
-- Repeat   safe

return (holder_of(required('Holder', 'key', ARGV[3])))
