-- Taking running jobs from their workers at once.

-- The fields of a job that time_out needs.
local function read_running(run, jid)
  return run('hmget', job_key(jid), 'queue', 'state', 'worker', 'history', 'x:o', 'time',
    'x:attempts')
end

-- Takes a running job with these fields from its worker. It is the next of its queue to be popped.
local function time_out(jid, job)
  local queue = job[1]
  try('zrem', queue_key(queue, 'locks'), jid)
  call('zadd', queue_key(queue, 'work'), '+inf', jid)
  adopt_history(jid, job[4])
  record(job_key(jid), entry(now, '"timed-out"'))
  call('hset', job_key(jid), 'state', 'stalled', 'expires', '0', 'x:attempts',
    with_attempt(job[7], 'timed_out', job[6], {worker = job[3] or nil, queue = queue}))
  lock_lost(jid, job[3] or '')
  wake(queue)
  if job[5] then
    stop_limited(jid, job[5])
  end
end
