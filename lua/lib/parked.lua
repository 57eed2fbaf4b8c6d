-- Parked jobs: jobs without room in one of their limits (lib/limits.lua). They are scheduled, and
-- return to work with their previous scores when there is room.

-- The maximum number of parked jobs that a call returns to work, for each limit.
local MAX_RETURNED = 100

-- Returns the limit that has parked a job with these fields, or nil.
local function parked_by(state, time, parked) -- cold
  local since, name = string.match(type(parked) == 'string' and parked or '', '^(%S*) (.+)$')
  return state == 'scheduled' and since == (time or '') and name or nil
end

-- Returns the queue in which a limit has parked a job, or nil if no longer parked.
local function parked_in(jid, name) -- cold
  local queue, state, time, parked = unpack(
    try('hmget', job_key(jid), 'queue', 'state', 'time', 'x:parked'))
  return parked_by(state, time, parked) == name and queue or nil
end

-- Returns a parked job to work. Reports whether it was in its place.
local function unpark(jid, queue, score) -- cold
  local work = queue_key(queue, 'work')
  if type(try('zcard', work)) == 'table' or
    try('zrem', queue_key(queue, 'scheduled'), jid) ~= 1 then
    return false
  end
  call('zadd', work, score, jid)
  call('hset', job_key(jid), 'state', 'waiting')
  call('hdel', job_key(jid), 'x:parked')
  note_filled(queue)
  wake(queue)
  return true
end

-- Makes a parked job fall due at a time, unless it is due earlier. An idle worker must wait for the
-- job unless its queue is paused.
local function arm(jid, queue, at, paused) -- cold
  local scheduled = queue_key(queue, 'scheduled')
  local due = finite(try('zscore', scheduled, jid))
  if due and due > at then
    try('zadd', scheduled, exact(at), jid)
    if not paused and not is_claimed(queue, at, '') then
      wake_for(queue, at - now)
    end
  end
end

-- Returns why a queue may start no more than n jobs now: 'paused', or 'full' by its max-concurrency
-- or max-rate. Otherwise nil.
local function why_closed(queue, n) -- cold
  if try('sismember', prefix .. 'paused_queues', queue) == 1 then
    return 'paused'
  end
  local most, max_rate = unpack(
    try('hmget', prefix .. 'config', queue .. '-max-concurrency', queue .. '-max-rate'))
  local running = finite(most, 0) > 0
    and finite(try('zcount', queue_key(queue, 'locks'), stamp, '+inf'))
  if running and running + n >= finite(most) then
    return 'full'
  end
  local rate = read_max_rate(queue, max_rate, 1)
  if rate then
    rate.started = n
  end
  return rate and rate_opens(rate) and 'full' or nil
end

-- Returns the best parked jobs of a limit to work while it has room, and makes the next one fall
-- due when there will be room. Drops jobs no longer parked. Passes over jobs in closed queues, so
-- others can have the room, and makes them due when the limit opens. Returns the number of jobs
-- returned to work, and sets limit.kept if more wait.
local function return_parked(limit) -- cold
  local wait, returned, passed = limit_key(limit.name, 'wait'), 0, 0
  local given, closed = {}, {} -- by queue: the number of jobs returned, and why closed
  for _ = 1, MAX_RETURNED do
    local best = try('zrevrange', wait, passed, passed, 'WITHSCORES')
    local jid, score = best[1], best[2]
    if not jid then
      return returned
    end
    local queue = parked_in(jid, limit.name)
    local opens = queue and limit_opens(limit)
    if queue and not closed[queue] then
      closed[queue] = why_closed(queue, given[queue] or 0)
    end
    if queue and closed[queue] then
      passed = passed + 1
      arm(jid, queue, opens or now, closed[queue] == 'paused')
    else
      if opens then
        arm(jid, queue, opens)
        limit.kept = true
        return returned
      end
      try('zrem', wait, jid)
      if queue and unpark(jid, queue, score) then
        limit.started, limit.room = limit.started + 1, limit.room - 1
        returned, given[queue] = returned + 1, (given[queue] or 0) + 1
      end
    end
  end
  return returned
end

-- Checks whether a scheduled job is parked by a limit that has room before the job falls due: the
-- server's clock may have been set back. Reports whether the job's due time has changed, or any job
-- has returned to work.
local function try_parked(jid, queue) -- cold
  local name = parked_by(unpack(try('hmget', job_key(jid), 'state', 'time', 'x:parked')))
  if not name then
    return false
  end
  local scheduled = queue_key(queue, 'scheduled')
  local due = try('zscore', scheduled, jid)
  return limit_freed(name) > 0 or try('zscore', scheduled, jid) ~= due
end

-- Moves a parked job to another place among the jobs waiting for the same limit.
local function move_parked(jid, parked, score) -- cold
  local name = string.match(parked, '^%S* (.+)$')
  if name and try('zadd', limit_key(name, 'wait'), 'XX', 'CH', score, jid) == 1 then
    limit_freed(name)
  end
end

-- Ends the parking of a job that falls due, or will wait for another time. Returns its previous
-- score in work, or nil if it was not parked, and the limit's name, or nil if missing.
local function score_before(jid) -- cold
  local key = job_key(jid)
  local time, parked = unpack(try('hmget', key, 'time', 'x:parked'))
  local since, name = string.match(parked or '', '^(%S*) (.+)$')
  if not name then
    return
  end
  local wait = limit_key(name, 'wait')
  local score = since == (time or '') and try('zscore', wait, jid)
  try('zrem', wait, jid)
  try('hdel', key, 'x:parked')
  return type(score) == 'string' and score or nil, name
end

-- Returns the member of a job's JSON with the limit that parked it, or ''.
local function parked_member(jid, stored, state, time) -- cold
  if state ~= 'scheduled' or not has_option(stored, LIMITED) then
    return ''
  end
  local name = parked_by(state, time, try('hget', job_key(jid), 'x:parked'))
  return name and ',"parked":' .. cjson.encode(name) or ''
end
