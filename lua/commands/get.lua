-- get: one job.
--
-- Args     jid, x:due if the JSON must have the job's due time
-- Returns  its JSON, or nil; with x:due and large data an array of the JSON, '' and the data. With
--          x:due, dependents or dependencies that are thousands are not shown, but named in
--          left_out
-- Errors   Job()
-- Cost     4 commands, 2 more if others wait for the job, or it waits for others
-- For      classic
-- Repeat   safe

local jid, asks_due = required('Job', 'jid', ARGV[3]), ARGV[4] == 'x:due'
budget.relations = asks_due and MAX_RELATED
local text = find_job(call, jid, asks_due)
return text and with_large(text, '')
