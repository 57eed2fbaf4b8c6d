-- get: one job.
--
-- Args     jid [, x:due, to include the due time]
-- Returns  its JSON, or nil. With x:due, large data is separate: an array of the JSON, '' and the
--          data; and lists of thousands of dependents or dependencies are named in left_out instead
-- Errors   Job()
-- Cost     4 commands, 2 more if others wait for the job, or it waits for others
-- For      classic
-- Repeat   safe

local jid, asks_due = required('Job', 'jid', ARGV[3]), ARGV[4] == 'x:due'
budget.relations = asks_due and MAX_RELATED
local text = find_job(call, jid, asks_due)
return text and with_large(text, '')
