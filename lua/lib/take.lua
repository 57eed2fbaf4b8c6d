-- Taking jobs out of queues and locking them for a worker: what pop and reserve share.

-- @include "lib/base.lua"
-- @include "lib/bulk.lua"
-- @include "lib/check.lua"
-- @include "lib/clock.lua"
-- @include "lib/due.lua"
-- @include "lib/events.lua"
-- @include "lib/history.lua"
-- @include "lib/jobs.lua"
-- @include "lib/lifetimes.lua"
-- @include "lib/locks.lua"
-- @include "lib/options.lua"
-- @include "lib/retention.lua"
-- @include "lib/settings.lua"
-- @include "lib/stats.lua"
-- @include "lib/work.lua"

-- The number of locks from which on a sorted set is better off not being a list.
local MANY_LOCKS = 6

-- A member that is too long for Redis to keep a sorted set as a list.
local NO_LIST = '-----------------------------------------------------------------'

-- The settings for taking jobs of a queue.
local function read_settings(queue)
  local values = call('hmget', prefix .. 'config', queue .. '-heartbeat', 'heartbeat',
    queue .. '-max-concurrency', 'max-job-history')
  local heartbeat = lock_time(values[1], values[2])
  return {
    heartbeat = heartbeat,
    max_concurrency = finite(values[3], 0),
    cap = history_cap(values[4]),
    tracked = true, -- some jobs may be
  }
end

-- The settings for jobs whose lock has ended.
local function read_lost_settings(cap) -- cold
  local values = call('hmget', prefix .. 'config', 'grace-period', 'jobs-failed-history',
    'backoff-initial-delay', 'backoff-factor', 'jobs-failed-history-count')
  return {
    cap = cap,
    grace = finite(values[1], DEFAULT_GRACE_PERIOD),
    keep_failed = retention(values[2], values[5]),
    initial_delay = values[3],
    factor = values[4],
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
  local expired = lost and expire(queue, wanted, read_lost_settings(settings.cap)) or {}
  bring_due(queue, recur, scheduled, wanted - #expired)
  return expired
end

-- Prepares a queue for taking the wanted number of jobs: moves what is due into work, and returns
-- the lost jobs, to be handed out first. Everything that can fail is read before the first write.
-- settings.tracked says whether there may be tracked, recurring or scheduled jobs, which many queues
-- have none of: one command asks for all.
local function open_queue(queue, settings, wanted)
  local lost, recur, scheduled = is_due(queue, 'locks'), false, false
  if settings.tracked then
    recur, scheduled = is_due(queue, 'recur'), is_due(queue, 'scheduled')
  end
  if lost or recur or scheduled then
    return take_due(queue, settings, wanted, lost, recur, scheduled)
  end
  return none
end

-- How many of the wanted jobs may be taken at once, so that the call does not drop too many.
local function within(wanted)
  return wanted + dropped < MAX_DROPPED and wanted or MAX_DROPPED - dropped
end

-- Takes up to limit jids out of work, highest score first. Unlike ZPOPMAX, this does not print
-- their scores.
local function take_work(run, queue, limit)
  local work = queue_key(queue, 'work')
  local best = run('zrevrange', work, '0', limit == 1 and '0' or string.format('%d', limit - 1))
  if #best > 0 then
    local first = #best == 1 and '-1' or string.format('%d', -#best)
    local removed = run('zremrangebyrank', work, first, '-1')
    if type(removed) == 'table' then
      return none
    end
  end
  return best
end

-- Reads and clears what jobs may have that were not only put. recorded is the entry that was just
-- added to the history.
local function read_rest(jid, key, job, recorded, cap) -- cold
  local rest = try('hmget', key, 'failure', 'spawned_from_jid', 'history', 'grace')
  job[FAILURE], job[SPAWNED_FROM_JID] = rest[1], rest[2]
  adopt_before(jid, rest[3], recorded, cap)
  if rest[4] then -- of a lock that was timed out
    call('hdel', key, 'grace')
  end
end

-- Adds n locks, which are scores and jids after the pair of NO_LIST, to those of a queue and the
-- jobs of a worker. Redis keeps a small sorted set as a list, in which every change walks over all
-- members. A set that has had a long member is none, until it is empty. Small calls see to that
-- with one jid in sixteen, because many workers may hold few locks each.
local function add_locks(queue, worker, locks, n)
  local first = n < MANY_LOCKS and (string.byte(locks[4], -1) or 1) % 16 > 0 and 3 or 1
  call('zadd', queue_key(queue, 'locks'), unpack(locks, first, 2 * n + 2))
  local held = try('zadd', worker_key(worker), unpack(locks, first, 2 * n + 2))
  if first == 1 then
    call('zrem', queue_key(queue, 'locks'), NO_LIST)
    if type(held) == 'number' then
      call('zrem', worker_key(worker), NO_LIST)
    end
  end
end

-- Locks a job whose options may say for how long, or for a call that says so. Returns when the lock
-- ends.
local function lock_special(key, job, worker, settings) -- cold
  local stored, seconds, more = job[OPTIONS] or '', settings.lock_time, {}
  if seconds then
    more = {'grace', NO_GRACE}
  end
  if has_option(stored, 'q') then
    more[#more + 1] = 'x:place'
    more[#more + 1] = job[TIME] or stamp
  end
  local ends = exact(now + (seconds or own_lock_time(stored) or settings.heartbeat))
  call('hset', key, 'state', 'running', 'worker', worker, 'expires', ends, 'time', stamp,
    unpack(more))
  return ends
end

-- Locks at most a few hundred jobs, and appends the result of show for each job to out. Drops jids
-- without a job, and jobs whose life has ended.
local function lock_some(queue, jids, worker, settings, show, out)
  local cap = settings.cap
  local expires = later(settings.heartbeat)
  local details = '{"worker":' .. cjson.encode(worker) .. '}'
  local popped = entry(now, '"popped"', details)
  local jobs, waited, locks = sized(jids), sized(jids), {'0', NO_LIST, false, unpack(jids)}
  local n, count = 0, #jids
  local put_at, put_time -- of the job before: many were put at the same time
  for i = 1, count do
    local jid = jids[i]
    local key = job_key(jid)
    local job = try('hmget', key, 'klass', 'queue', 'priority', 'retries', 'remaining', 'data',
      'tags', 'time', 'x:o')
    local stored = job[OPTIONS]
    local over = stored and string.find(stored, '^%a*[st]') and is_over(jid, stored, 'waiting')
      and drop_expired(jid, 'waiting')
    if not over and (job[KLASS] or not job.err and call('exists', key) == 1) then
      n = n + 1
      -- A job that was only put has two entries by now. Those of recurring jobs have a dash.
      local entries = record(key, popped, cap)
      if entries ~= 2 or string.find(jid, '-', 1, true) then
        read_rest(jid, key, job, popped, cap)
      end
      local ends = expires
      if settings.lock_time or stored and string.find(stored, '^%a*[lq]') then
        ends = lock_special(key, job, worker, settings)
      else
        call('hset', key, 'state', 'running', 'worker', worker, 'expires', expires, 'time', stamp)
      end
      if job[TIME] ~= put_at or n == 1 then
        put_at, put_time = job[TIME], finite(job[TIME], now)
      end
      jobs[n], jids[n], waited[n] = job, jid, now - put_time
      locks[2 * n + 1], locks[2 * n + 2] = ends, jid
    else
      call('zrem', queue_key(queue, 'locks'), jid)
    end
  end
  for i = n + 1, count do
    jids[i], waited[i] = nil, nil
  end
  if n == 0 then
    return
  end
  add_locks(queue, worker, locks, n)
  observe('wait', queue, waited)
  local tracked = settings.tracked and try('zmscore', prefix .. 'tracked', unpack(jids)) or none
  for i = 1, n do
    if tracked[i] then
      publish('popped', jids[i])
    end
    out[#out + 1] = show(jids[i], jobs[i], tracked[i] and true or false, worker,
      locks[2 * i + 1])
  end
end

-- The same for any number of jids. Changes the list.
local function lock(queue, jids, worker, settings, show, out)
  for first = 1, #jids, 500 do
    local some = jids
    if #jids > 500 then
      some = {unpack(jids, first, math.min(first + 499, #jids))}
    end
    lock_some(queue, some, worker, settings, show, out)
  end
end

-- The JSON of a job after it was taken, with the text more at its end.
local function popped_json(jid, job, tracked, worker, expires, more)
  job[FAILURE], job[SPAWNED_FROM_JID] = job[FAILURE] or false, job[SPAWNED_FROM_JID] or false
  job[HISTORY], job[JID] = false, jid
  job[STATE], job[WORKER], job[EXPIRES] = 'running', worker, expires
  local newest = '{"worker":' .. cjson.encode(worker) .. ',"when":' .. string.format('%d', now) ..
    ',"what":"popped"}'
  return job_json(job, tracked, more, newest)
end
