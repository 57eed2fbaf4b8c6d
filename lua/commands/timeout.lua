-- timeout: expires the locks of running jobs at once. They are popped before all others.
--
-- KEYS[1]  the namespace prefix
-- ARGV     COMMAND, NOW, jid...
-- Returns  nil
-- Errors   Timeout() when one of them does not run; none is touched then
-- Cost     7 commands a job
-- For      classic
-- Repeat   once
-- Hot
-- Needs    exists expire get hdel hget hmget hset lindex lpush lrange ltrim publish rpush sadd
--          sismember srem time zadd zcard zpopmax zpopmin zrange zrangebyscore zrem zrevrange
--          zscore

local running, jids = {}, {}
for i = 3, #ARGV do
  local jid = ARGV[i]
  local job = call('hmget', job_key(jid), 'queue', 'state', 'worker', 'history', 'x:o')
  if not job[2] then
    reject('Timeout', 'Job ' .. jid .. ' does not exist')
  elseif job[2] ~= 'running' then
    reject('Timeout', 'Job ' .. jid .. ' not running')
  end
  if not job[1] then
    reject('Timeout', 'Job ' .. jid .. ' is in no queue')
  end
  call('zcard', queue_key(job[1], 'work')) -- fails before anything is written, or not at all
  if not running[jid] then
    running[jid] = job
    jids[#jids + 1] = jid
  end
end

must_publish()

for _, jid in ipairs(jids) do
  local job = running[jid]
  local queue, worker = job[1], job[3] or ''
  try('zrem', queue_key(queue, 'locks'), jid)
  call('zadd', queue_key(queue, 'work'), '+inf', jid)
  adopt_history(jid, job[4])
  record(job_key(jid), entry(now, '"timed-out"'))
  call('hset', job_key(jid), 'state', 'stalled', 'expires', '0')
  lock_lost(jid, worker)
  wake(queue)
  if job[5] then
    stop_limited(jid, job[5])
  end
end
