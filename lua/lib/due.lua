-- Due jobs. The server has no timer: every command that asks a queue for jobs moves due jobs.

-- Puts the child of a recurring job for the given due time.
local function spawn(queue, parent, child, job, at)
  call('hset', job_key(child), 'jid', child, 'klass', job.klass, 'data', job.data,
    'priority', job.priority, 'tags', job.tags, 'state', 'waiting', 'worker', '', 'expires', 0,
    'queue', queue, 'retries', job.retries, 'remaining', job.retries, 'time', exact(at),
    'spawned_from_jid', parent)
  call('zadd', queue_key(queue, 'work'), work_score(at, job.priority), child)
  add_tags(child, names_of(job.tags), 1)
  record(job_key(child), entry(at, '"put"', cjson.encode({q = queue})))
end

-- Returns the next number after count unused by the recurring job's children, in growing steps.
local function next_child(parent, count)
  local taken = 0
  repeat
    count = count + math.max(1, 2 ^ math.floor(taken / 100 - 1))
    local child = parent .. '-' .. string.format('%.0f', count)
    taken = taken + 1
  until call('exists', job_key(child)) == 0
  return count
end

-- Spawns at most limit due children of a recurring job. Returns the number spawned.
local function spawn_due(queue, parent, due, limit)
  local klass, data, priority, tags, retries, interval, backlog, count = unpack(try('hmget',
    recur_key(parent), 'klass', 'data', 'priority', 'tags', 'retries', 'interval', 'backlog',
    'count'))
  interval, backlog, count = finite(interval, 0), finite(backlog, 0), finite(count, 0)
  count = count >= 0 and count < 2 ^ 53 and count or 0 -- else the field is damaged
  if not klass or interval <= 0 then
    call('zrem', queue_key(queue, 'recur'), parent)
    return 0
  end
  -- Whole intervals begin at whole seconds, as with classic clients.
  local at = interval % 1 == 0 and math.floor(due) or due
  local missed = (now - at) / interval
  if backlog ~= 0 and missed > backlog then
    at = at + math.ceil(missed - backlog) * interval
  end
  local spawned, job = 0, {
    klass = klass, data = data or '{}', priority = priority or '0', tags = tags or '[]',
    retries = retries or '0',
  }
  while at <= now and spawned < limit do
    count = next_child(parent, count)
    spawn(queue, parent, parent .. '-' .. string.format('%.0f', count), job, at)
    at = at + interval
    spawned = spawned + 1
  end
  if spawned > 0 then
    call('hset', recur_key(parent), 'count', string.format('%.0f', count))
    call('zadd', queue_key(queue, 'recur'), exact(at), parent)
    publish_more({event = 'spawned', queue = queue, jid = parent, count = spawned})
  end
  return spawned
end

local function spawn_all(queue, limit)
  local due = call('zrangebyscore', queue_key(queue, 'recur'), 0, stamp,
    'WITHSCORES', 'LIMIT', 0, limit)
  for i = 1, #due, 2 do
    limit = limit - spawn_due(queue, due[i], tonumber(due[i + 1]), limit)
    if limit <= 0 then
      return
    end
  end
end

-- Returns the score of a job with a place of its own when lost (own_place): by its due time, as the
-- nth of the jobs moved together.
local function due_score(scheduled, jid, priority, n) -- cold
  local at = finite(try('zscore', scheduled, jid), now)
  call('hset', job_key(jid), 'time', exact(at))
  return work_score(at + (n - 1) * 0.000001, priority)
end

local function move_scheduled(queue, limit)
  local scheduled = queue_key(queue, 'scheduled')
  local due = call('zrangebyscore', scheduled, 0, stamp, 'LIMIT', 0, limit)
  local work, turns = {}, {}
  for n, jid in ipairs(due) do
    local job = try('hmget', job_key(jid), 'priority', 'x:o')
    local priority, stored = unpack(job)
    if priority or not job.err and call('exists', job_key(jid)) == 1 then
      call('hset', job_key(jid), 'state', 'waiting')
      work[#work + 1] = stored and has_option(stored, LIMITED) and score_before(jid)
        or stored and has_option(stored, ON_LOST) and own_place(stored)
          and due_score(scheduled, jid, priority, n)
        or stored and score_of(queue, priority, stored, turns) or work_score(now, priority)
      work[#work + 1] = jid
    end
  end
  each_slice(call, 'zrem', scheduled, due)
  each_slice(call, 'zadd', queue_key(queue, 'work'), work)
end

-- Returns how many of the wanted children of recurring jobs fit into some bytes of data: 1 or more.
local function children_with_room(queue, wanted, bytes) -- cold
  local largest = 1
  local due = call('zrangebyscore', queue_key(queue, 'recur'), 0, stamp, 'LIMIT', 0, wanted)
  for i = 1, #due do
    largest = math.max(largest, finite(try('hstrlen', recur_key(due[i]), 'data'), 0))
  end
  return math.max(1, math.min(wanted, math.floor(bytes / largest)))
end

-- Moves due jobs into work: at most limit children of recurring jobs, and at most limit scheduled
-- jobs. The caller has checked whether there are any, so these keys can be written.
local function bring_due(queue, recur, scheduled, limit) -- cold
  local work = queue_key(queue, 'work')
  if limit <= 0 or not may_write(work) then
    return
  end
  call('zrem', work, '') -- needs no memory, and fails if jobs could not be added later
  if recur then
    spawn_all(queue, limit)
  end
  if scheduled then
    move_scheduled(queue, limit)
  end
end
