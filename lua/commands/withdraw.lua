-- withdraw: deletes a job that is not running and has not ended.
--
-- Args     jid
-- Returns  the former state; a running, complete or failed job is left alone. "unlinked" if the job
--          has more than 1,000 dependencies: some are removed, the job is held back, and the caller
--          must repeat the call. Nil if there is no such job
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
