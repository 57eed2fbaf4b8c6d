-- Taking running jobs from their workers immediately.

-- Reads the fields needed by time_out.
local function read_running(run, jid)
  return named_fields(run, job_key(jid), {
    'queue', 'state', 'worker', 'history', 'x:o', 'time', 'x:attempts',
  })
end

-- Takes a running job with these fields from its worker. The job is then the next in its queue.
local function time_out(jid, job)
  local queue, worker, stored = job.queue, job.worker, job['x:o']
  try('zrem', queue_key(queue, 'locks'), jid)
  call('zadd', queue_key(queue, 'work'), '+inf', jid)
  adopt_history(jid, job.history)
  record(job_key(jid), entry(now, '"timed-out"'))
  call('hset', job_key(jid), 'state', 'stalled', 'expires', '0', 'x:attempts',
    with_attempt(job['x:attempts'], 'timed_out', job.time, {worker = worker or nil, queue = queue}))
  lock_lost(jid, worker or '')
  wake(queue)
  stop_limited(jid, stored)
end
