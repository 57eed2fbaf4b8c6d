-- withdraw: deletes a job that is not running and has not ended.
--
-- Args     jid
-- Returns  the state that the job was in: it was left as it is if that is running, complete or
--          failed. "unlinked" if it waited for more than 1,000 others: now it waits for fewer, and
--          for ever, and the caller asks again. Nil if there is no such job
-- Errors   Job(); Cancel() when another job depends on it
-- Cost     1 command, or those of cancel
-- For      Go
-- Repeat   once

local jid = required('Job', 'jid', ARGV[3])
local job = read_job_to_cancel(jid, max_unlinked())
local state = job.state
if state and state ~= 'running' and state ~= 'complete' and state ~= 'failed' then
  check_dependents(jid, {}, 0)
  must_publish()
  if #job.dependencies > max_unlinked() then
    unlink_some(jid)
    return 'unlinked'
  end
  cancel_job(jid, job)
end
return state
