-- priority: changes a job's priority, and its position if it is waiting.
--
-- Args     jid, n
-- Returns  n
-- Errors   Priority() when there is no such job
-- Cost     3 commands, 4 if the job is complete
-- For      classic
-- Repeat   safe

local jid = required('Job', 'jid', ARGV[3])
local priority = number('Priority', 'priority', ARGV[4])
local job = named_fields(call, job_key(jid), PRIORITY_FIELDS)
if not job.queue then
  raise('Priority', no_job(jid))
end
set_priority(call, jid, job, priority)
return priority
