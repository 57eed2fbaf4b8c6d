-- cancel: deletes jobs in any state but complete. Complete jobs are left alone.
--
-- Args     jid...
-- Returns  the jids, existing or not. For Go none if a job has more than 1,000 dependencies:
--          nothing was done then, and the caller must use cancel.all
-- Errors   Cancel() when a job depends on one of them and is not itself among them
-- Cost     14 commands a job, 15 if it has failed
-- For      classic
-- Repeat   once

local among = set_of(ARGV, 3)
for i = 3, #ARGV do
  check_dependents(ARGV[i], among, #ARGV - 2)
end

must_publish()
local jobs, jids = {}, {}
for i = 3, #ARGV do
  local jid = ARGV[i]
  jobs[jid] = jobs[jid] or read_job_to_cancel(jid, max_unlinked())
  if #jobs[jid].dependencies > max_unlinked() then
    return jids
  end
end
local gone = {state = false, queue = false, worker = false, dependencies = {}}
for i = 3, #ARGV do
  local jid = ARGV[i]
  cancel_job(jid, jobs[jid])
  if jobs[jid].state ~= 'complete' then
    jobs[jid] = gone
  end
  jids[i - 2] = jid
end
return jids
