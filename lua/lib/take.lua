-- Taking jobs out of queues and locking them for a worker: what pop and reserve share.

-- @include "lib/base.lua"
-- @include "lib/check.lua"
-- @include "lib/clock.lua"
-- @include "lib/due.lua"
-- @include "lib/events.lua"
-- @include "lib/history.lua"
-- @include "lib/jobs.lua"
-- @include "lib/locks.lua"
-- @include "lib/settings.lua"
-- @include "lib/stats.lua"
-- @include "lib/work.lua"

-- The settings for taking jobs of a queue.
local function read_settings(queue)
  local values = call('hmget', prefix .. 'config', queue .. '-heartbeat', 'heartbeat',
    queue .. '-max-concurrency', 'grace-period', 'max-job-history', 'jobs-failed-history',
    'backoff-initial-delay', 'backoff-factor')
  return {
    heartbeat = lock_time(values[1], values[2]),
    max_concurrency = finite(values[3], 0),
    grace = finite(values[4], DEFAULT_GRACE_PERIOD),
    cap = history_cap(values[5]),
    keep_failed = values[6],
    initial_delay = values[7],
    factor = values[8],
  }
end

-- How many of the wanted jobs the queue may still run.
local function allowed(queue, max_concurrency, wanted)
  if max_concurrency <= 0 then
    return wanted
  end
  local running = call('zcount', queue_key(queue, 'locks'), stamp, '+inf')
  return math.min(wanted, math.max(0, max_concurrency - running))
end

-- Handles as many due jobs of a queue as are wanted. Returns the lost jobs to hand out.
local function take_due(queue, settings, wanted, lost, recur, scheduled) -- cold
  -- Needs no memory, and fails if jobs could not be added later.
  call('zrem', queue_key(queue, 'work'), '')
  local expired = lost and expire(queue, wanted, settings) or {}
  bring_due(queue, recur, scheduled, wanted - #expired)
  return expired
end

-- Prepares a queue for taking the wanted number of jobs: moves what is due into work, and returns
-- the lost jobs, to be handed out first. Everything that can fail is read before the first write.
local function open_queue(queue, settings, wanted)
  local lost, recur = is_due(queue, 'locks'), is_due(queue, 'recur')
  local scheduled = is_due(queue, 'scheduled')
  if lost or recur or scheduled then
    return take_due(queue, settings, wanted, lost, recur, scheduled)
  end
  return none
end

-- Takes up to limit jids out of work, highest score first. A job that was timed out may have a
-- grace period left over from its previous lock.
local function take_work(run, queue, limit)
  local scored = run('zpopmax', queue_key(queue, 'work'), limit)
  local jids = {}
  for i = 1, #scored, 2 do
    jids[#jids + 1] = scored[i]
    if scored[i + 1] == 'inf' then
      try('hdel', job_key(scored[i]), 'grace')
    end
  end
  return jids
end

-- Locks jids[first..last], at most a few hundred, and appends the result of show for each job to
-- out. Drops jids without a job.
local function lock_some(queue, jids, first, last, worker, settings, show, out)
  local cap, expires = settings.cap, exact(now + settings.heartbeat)
  local popped = entry(now, '"popped"', '{"worker":' .. cjson.encode(worker) .. '}')
  local jobs, taken, waited, locks = {}, {}, {}, {}
  local n = 0
  for i = first, last do
    local jid = jids[i]
    local key = job_key(jid)
    local job = read_untaken(try, key)
    if not job[JID] and not job.err and call('exists', key) == 1 then
      job[JID] = jid
    end
    if job[JID] then
      n = n + 1
      adopt_history(jid, job[HISTORY])
      record(key, popped, cap)
      call('hset', key, 'state', 'running', 'worker', worker, 'expires', expires, 'time', stamp)
      jobs[n], taken[n], waited[n] = job, jid, now - finite(job[TIME], now)
      locks[2 * n - 1], locks[2 * n] = expires, jid
    else
      call('zrem', queue_key(queue, 'locks'), jid)
    end
  end
  if n == 0 then
    return
  end
  call('zadd', queue_key(queue, 'locks'), unpack(locks))
  try('zadd', worker_key(worker), unpack(locks))
  observe('wait', queue, waited)
  local tracked = try('zmscore', prefix .. 'tracked', unpack(taken))
  for i = 1, n do
    if tracked[i] then
      publish('popped', taken[i])
    end
    out[#out + 1] = show(jobs[i], tracked[i] and true or false, worker, expires)
  end
end

-- The same for any number of jids.
local function lock(queue, jids, worker, settings, show, out)
  for first = 1, #jids, 500 do
    lock_some(queue, jids, first, math.min(first + 499, #jids), worker, settings, show, out)
  end
end

-- The JSON of a job after it was taken, with the text more at its end.
local function popped_json(job, tracked, worker, expires, more)
  job[HISTORY] = false
  job[STATE], job[WORKER], job[EXPIRES] = 'running', worker, expires
  return job_json(job, tracked, more)
end
