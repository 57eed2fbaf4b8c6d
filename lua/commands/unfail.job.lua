-- unfail.job: moves one failed job into its own queue.
--
-- Args     jid [, pairs: retries, n; ttl, seconds]
-- Returns  the jid
-- Errors   Unfail.job() when there is no such job, or it has not failed
-- Cost     14 commands
-- For      Go
-- Repeat   once

local jid = required('Job', 'jid', ARGV[3])
local given = read_gift('Unfail.job', 4, #ARGV)
local state = call('hget', job_key(jid), 'state')
if not state then
  raise('Unfail.job', no_job(jid))
elseif state ~= 'failed' then
  raise('Unfail.job', new_problem('not_failed', jid, 'has not failed: ' .. state))
end
local job = read_failed(jid)
if not job then
  raise('Unfail.job', no_queue(jid))
end
unfail({job}, given)
leave_group(jid, list_of(job.failure))
return jid
