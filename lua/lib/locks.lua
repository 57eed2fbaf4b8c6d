-- Locks. A running job belongs to its worker until the lock expires. The worker is then notified
-- once, and keeps the job for the grace period; after that, the next worker that asks takes the
-- job. A lock with a duration from the job or the pop has no grace period.

-- The field grace of a job without a grace period whose worker was not notified. Classic scripts
-- take it like 1: there is nothing to wait for.
local NO_GRACE = '1.0'

-- The maximum number of expired jobs that a call from Go drops, and the number dropped so far.
local DROPPED = 60
local dropped = 0

-- Reads the settings for jobs with expired locks.
local function read_lost_settings(cap) -- cold
  local grace, seconds, count, initial_delay, factor = unpack(call('hmget', prefix .. 'config',
    'grace-period', 'jobs-failed-history', 'jobs-failed-history-count', 'backoff-initial-delay',
    'backoff-factor'))
  return {
    cap = cap, grace = finite(grace, DEFAULT_GRACE_PERIOD),
    keep_failed = retention(seconds, count), initial_delay = initial_delay, factor = factor,
  }
end

-- Drops an expired job, as if it were in a state. Reports whether this was possible.
local function drop_expired(jid, state) -- cold
  if not end_life(jid, state) then
    return false
  end
  budget.drops, dropped = budget.drops - 1, dropped + 1
  return true
end

-- Notifies the worker and begins the grace period.
local function warn(queue, jid, worker, grace, cap)
  publish_tracked('stalled', jid)
  record(job_key(jid), entry(now, '"timed-out"'), cap)
  call('hset', job_key(jid), 'grace', 1)
  lock_lost(jid, worker)
  call('zadd', queue_key(queue, 'locks'), exact(now + grace), jid)
  tally(day_of(now), queue, 'retries', 1)
end

-- Fails a lost job without retries left. own_queue is the queue in the job's hash, which a retry
-- into another queue leaves unchanged.
local function fail_lost(queue, jid, worker, own_queue, stored, settings) -- cold
  leave_queue(queue, jid)
  local group = 'failed-retries-' .. (own_queue or queue)
  local message = 'Job exhausted retries in queue "' .. queue .. '"'
  add_failure(jid, group)
  mark_exhausted(jid, queue, group, failure_json(group, message, now, ''), settings.cap)
  publish('log', cjson.encode({
    jid = jid, event = 'failed', group = group, worker = worker, message = message,
  }))
  settle_failure(jid, group, stored, settings.keep_failed)
end

-- Returns the delay of a lost job until it can be taken again: initial delay * factor ^ losses,
-- from the job's own backoff, or else the settings. Returns nil if there is none.
local function backoff_delay(text, retries, remaining, settings) -- cold
  local own = list_of(text)
  local initial = finite(own.initial_delay, finite(settings.initial_delay,
    DEFAULT_BACKOFF_INITIAL_DELAY))
  if initial == 0 then
    return nil
  end
  local factor = finite(own.factor, finite(settings.factor, DEFAULT_BACKOFF_FACTOR))
  return finite(initial * factor ^ (finite(retries, remaining) - remaining))
end

-- Schedules a lost job.
local function put_off(queue, jid, delay) -- cold
  try('zrem', queue_key(queue, 'work'), jid)
  call('zadd', queue_key(queue, 'scheduled'), exact(now + delay), jid)
  call('zrem', queue_key(queue, 'locks'), jid)
  call('hset', job_key(jid), 'state', 'scheduled')
  wake_for(queue, delay)
end

-- The number of jobs that this call has made the last of their priorities.
local made_last = 0

-- Returns a lost job to work if its options name a place. Reports whether they do.
local function put_back(queue, jid, stored) -- cold
  local values = split_options(stored)
  if values[ON_LOST] ~= 'last' and values[ON_LOST] ~= 'place' then
    return false
  end
  local priority, place = unpack(try('hmget', job_key(jid), 'priority', 'x:place'))
  local turn = values[FAIR] and fair_score(queue, priority, stored, {})
  local at = now + made_last * 0.000001
  if values[ON_LOST] == 'place' and not turn then
    at = finite(place, now)
  else
    made_last = made_last + 1
  end
  call('zadd', queue_key(queue, 'work'), turn or work_score(at, priority), jid)
  call('zrem', queue_key(queue, 'locks'), jid)
  call('hset', job_key(jid), 'state', 'waiting', 'worker', '', 'expires', '0', 'time', exact(at))
  wake_for(queue, 0)
  return true
end

-- Reports whether the worker of a job with these fields is in its grace period: its lock, ending at
-- a time, is then longer than the job's own field. Otherwise, the field grace is left from a
-- previous worker that was timed out during its own.
local function in_grace(grace, expires, ends)
  return tonumber(grace) == 1 and ends ~= finite(expires)
end

-- Reports whether the worker of a lost job with these fields has no grace period.
local function is_sudden(grace, stored)
  return grace == NO_GRACE or stored and has_option(stored, LOCK_TIME)
end

-- Decides what to do with a job lost by its worker. Returns the jid if the job can be taken now.
local function give_again(queue, jid, job, settings) -- cold
  local remaining, stored, delay = math.floor(finite(job.remaining, 0)) - 1, job['x:o'], nil
  if remaining >= 0 and (job.backoff or settings.initial_delay) then
    delay = backoff_delay(job.backoff, job.retries, remaining, settings)
  end
  local ended = finite(job.expires, now) < now and job.expires
  call('hset', job_key(jid), 'remaining', remaining, 'x:attempts',
    with_attempt(job['x:attempts'], 'lost', job.time, {
      ended = ended, worker = job.worker or '', queue = queue, delay = delay,
    }))
  call('hdel', job_key(jid), 'grace')
  if remaining < 0 then
    fail_lost(queue, jid, job.worker or '', job.queue, stored, settings)
    return nil
  end
  if stored and is_over(jid, stored, 'waiting') and drop_expired(jid, 'waiting') then
    return nil
  end
  if delay then
    put_off(queue, jid, delay)
  elseif not (stored and has_option(stored, ON_LOST) and put_back(queue, jid, stored)) then
    return jid
  end
  stop_limited(jid, stored)
end

-- Handles one expired lock. Returns the jid if the job can be taken.
local function expire_lock(queue, jid, settings) -- cold
  local job = named_fields(try, job_key(jid), {'worker', 'grace', 'remaining', 'history', 'queue',
    'state', 'backoff', 'retries', 'x:o', 'time', 'expires', 'x:attempts'})
  local stored, worker, grace = job['x:o'], job.worker or '', settings.grace
  local ends = job.grace and finite(try('zscore', queue_key(queue, 'locks'), jid))
  local warned = in_grace(job.grace, job.expires, ends)
  if not job.worker and not job.state then
    call('zrem', queue_key(queue, 'locks'), jid)
    return nil
  end
  adopt_history(jid, job.history)
  if stored and is_over(jid, stored, 'running') and drop_expired(jid, 'running') then
    return nil
  end
  try('zrem', worker_key(worker), jid)
  local sudden = grace <= 0 or not warned and is_sudden(job.grace, stored)
  if sudden or not warned then
    warn(queue, jid, worker, grace, settings.cap)
  end
  if sudden or warned then
    return give_again(queue, jid, job, settings)
  end
end

-- Handles at most limit expired locks, and one more for each expired job, while the call may drop
-- jobs. Returns the jids of the jobs that can be taken.
local function expire(queue, limit, settings)
  local taken = {}
  while limit > 0 do
    local before = dropped
    local ended = call('zrangebyscore', queue_key(queue, 'locks'), '-inf', stamp, 'LIMIT', 0, limit)
    for i = 1, budget.drops > 0 and #ended or 0 do
      taken[#taken + 1] = expire_lock(queue, ended[i], settings)
      if budget.drops <= 0 then
        break
      end
    end
    limit = math.min(dropped - before, budget.drops)
    if limit > 0 then
      each_slice(call, 'zrem', queue_key(queue, 'locks'), taken) -- not to find these again
    end
  end
  each_slice(call, 'zrem', queue_key(queue, 'work'), taken)
  return taken
end
