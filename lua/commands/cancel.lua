-- cancel: deletes jobs, whatever their state; completed ones are left alone.
--
-- Args     jid...
-- Returns  the jids, existing or not. Go gets none if one of the jobs waits for more than 1,000
--          others: then nothing was done, and cancel.all is the command for it
-- Errors   Cancel() when a job depends on one of them and is not itself among them
-- Cost     14 commands a job, 15 if it has failed
-- For      classic
-- Repeat   once

local among = set_of(ARGV, 3)
for i = 3, #ARGV do
  check_dependents(ARGV[i], among, #ARGV - 2)
end

-- Reads the jobs, each once, or nothing if one of them waits for too many others.
local function read_jobs()
  local jobs = {}
  for i = 3, #ARGV do
    local jid = ARGV[i]
    jobs[jid] = jobs[jid] or read_job_to_cancel(jid, max_unlinked())
    if #jobs[jid].dependencies > max_unlinked() then
      return
    end
  end
  return jobs
end

must_publish()
local jobs, jids = read_jobs(), {}
if not jobs then
  return jids
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
