-- timeout: expires the locks of running jobs now. These jobs are popped before all others.
--
-- Args     jid...
-- Returns  nil
-- Errors   Timeout() when one of them does not run; none is touched then
-- Cost     7 commands a job
-- For      classic
-- Repeat   once

local running, jids = {}, {}
for i = 3, #ARGV do
  local jid = ARGV[i]
  local job = read_running(call, jid)
  if not job.state then
    raise('Timeout', no_job(jid))
  elseif job.state ~= 'running' then
    raise('Timeout', new_problem('not_running', jid, is('not running')))
  elseif not job.queue then
    raise('Timeout', no_queue(jid))
  end
  call('zcard', queue_key(job.queue, 'work')) -- fails before anything is written, or not at all
  if not running[jid] then
    running[jid] = job
    jids[#jids + 1] = jid
  end
end

must_publish()

for _, jid in ipairs(jids) do
  time_out(jid, running[jid])
end
