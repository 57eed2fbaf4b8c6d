-- timeout: expires the locks of running jobs now. These jobs are popped before all others.
--
-- Args     jid...
-- Returns  nil
-- Errors   Timeout() when one of them does not run; none is touched then
-- Cost     7 commands a job
-- For      classic
-- Repeat   once

local jids, running = union({}, ARGV, 3), {} -- each once
for i, jid in ipairs(jids) do
  local job = read_running(call, jid)
  if not job.state then
    raise('Timeout', no_job(jid))
  elseif job.state ~= 'running' then
    raise('Timeout', new_problem('not_running', jid, is('not running')))
  elseif not job.queue then
    raise('Timeout', no_queue(jid))
  end
  call('zcard', queue_key(job.queue, 'work')) -- fails before anything is written, or not at all
  running[i] = job
end

must_publish()

for i, jid in ipairs(jids) do
  time_out(jid, running[i])
end
