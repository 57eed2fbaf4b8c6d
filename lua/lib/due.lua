-- What has fallen due: nothing runs on a schedule by itself, whoever asks a queue moves it.

-- @include "lib/clock.lua"
-- @include "lib/json.lua"
-- @include "lib/bulk.lua"
-- @include "lib/tags.lua"
-- @include "lib/history.lua"
-- @include "lib/work.lua"

-- Puts the child of a recurring job that was due at a time.
local function spawn(queue, parent, job, at)
  local child = parent .. '-' .. call('hincrby', recur_key(parent), 'count', 1)
  add_tags(child, names_of(job.tags), 1)
  call('hset', job_key(child),
    'jid', child,
    'klass', job.klass,
    'data', job.data,
    'priority', job.priority,
    'tags', job.tags,
    'state', 'waiting',
    'worker', '',
    'expires', 0,
    'queue', queue,
    'retries', job.retries,
    'remaining', job.retries,
    'time', exact(at),
    'spawned_from_jid', parent)
  record(job_key(child), entry(at, 'put', cjson.encode({q = queue})))
  add_work(queue, at, job.priority, child)
end

-- Spawns the due children of one recurring job, at most limit; how many.
local function spawn_due(queue, parent, due, limit)
  local fields = call('hmget', recur_key(parent),
    'klass', 'data', 'priority', 'tags', 'retries', 'interval', 'backlog')
  local job = {
    klass = fields[1], data = fields[2] or '{}', priority = fields[3] or '0',
    tags = fields[4] or '[]', retries = fields[5] or '0',
  }
  local interval = finite(fields[6], 0)
  if not job.klass or interval <= 0 then
    call('zrem', queue_key(queue, 'recur'), parent)
    return 0
  end
  local at = math.floor(due)
  local backlog = finite(fields[7], 0)
  local missed = (now - at) / interval
  if backlog ~= 0 and missed > backlog then
    at = at + math.ceil(missed - backlog) * interval
  end
  local spawned = 0
  while at <= now and spawned < limit do
    spawn(queue, parent, job, at)
    at = at + interval
    spawned = spawned + 1
  end
  if spawned > 0 then
    call('zadd', queue_key(queue, 'recur'), at, parent)
  end
  return spawned
end

local function spawn_all(queue, limit) -- cold
  local recur = queue_key(queue, 'recur')
  if not may_write(recur) then
    return
  end
  local due = call('zrangebyscore', recur, 0, stamp, 'WITHSCORES', 'LIMIT', 0, limit)
  for i = 1, #due, 2 do
    limit = limit - spawn_due(queue, due[i], tonumber(due[i + 1]), limit)
    if limit <= 0 then
      return
    end
  end
end

-- Spawns what recurs and is due, at most limit.
local function check_recurring(queue, limit)
  if limit > 0 and is_due(queue, 'recur') then
    spawn_all(queue, limit)
  end
end

local function move_due(queue, limit) -- cold
  local scheduled = queue_key(queue, 'scheduled')
  if not may_write(scheduled) then
    return
  end
  local due = call('zrangebyscore', scheduled, 0, stamp, 'LIMIT', 0, limit)
  local work = {}
  for _, jid in ipairs(due) do
    local priority = call('hget', job_key(jid), 'priority')
    if priority then
      call('hset', job_key(jid), 'state', 'waiting')
      work[#work + 1] = work_score(now, priority)
      work[#work + 1] = jid
    end
  end
  each_slice('zrem', scheduled, due)
  each_slice('zadd', queue_key(queue, 'work'), work)
end

-- Moves scheduled jobs that are due into work, at most limit.
local function check_scheduled(queue, limit)
  if limit > 0 and is_due(queue, 'scheduled') then
    move_due(queue, limit)
  end
end
