-- result: the end of a job, and its result.
--
-- Args     jid
-- Returns  JSON with the state; for an ended job also the result, if it has one, and the failure,
--          if it has failed, both as text. Nil if there is no such job
-- Errors   Job()
-- Cost     1 command
-- For      Go
-- Repeat   safe

return read_end(call, required('Job', 'jid', ARGV[3]))
