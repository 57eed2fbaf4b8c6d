-- Functions shared by the doctor's checks. A check examines some items and returns their problems.
-- Given a kind, it repairs the problems of that kind, and looks for them again in the same step.
--
-- KEYS[1]  the namespace prefix
-- ARGV     CHECK; NOW, or '' for the server's clock; the kind to repair, or '' to check; then the
--          items: a key without the prefix and, of a set or a list, a member, or ''
-- Returns  an array of problems: kind, key, member, details, and 1 if it can be repaired,
--          else 0. A check that repairs returns the problems that it has repaired. Keys have no
--          prefix, except in details

local to_repair = ARGV[3]
local problems = {}

-- Whether a key has a type, or does not exist.
local function fits(key, typ)
  local found = call('type', key).ok
  return found == typ or found == 'none'
end

-- Reports a problem, or repairs it. repair is false if no repair is safe. The repair writes the
-- keys that follow, each with its type: a key of another type makes it unsafe, too.
local function diagnose(kind, key, member, details, repair, ...)
  local written = {...}
  for i = 1, #written, 2 do
    repair = fits(written[i], written[i + 1]) and repair
  end
  if to_repair == '' or to_repair == kind and repair then
    problems[#problems + 1] = {
      kind, string.sub(key, #prefix + 1), member, details, repair and '1' or '0',
    }
  end
  if to_repair == kind and repair then
    repair()
  end
end

-- Calls a function for each item with the key without the prefix, the member, and the whole key.
local function each(check)
  for i = 4, #ARGV, 2 do
    check(ARGV[i], ARGV[i + 1], prefix .. ARGV[i])
  end
  return problems
end

-- The part of a text between a beginning and an end, or nil.
local function between(text, first, last)
  if #text >= #first + #last and string.sub(text, 1, #first) == first
    and (last == '' or string.sub(text, -#last) == last) then
    return string.sub(text, #first + 1, -#last - 1)
  end
end

-- The score of a member of a sorted set, or nil.
local function score_at(key, member)
  local score = try('zscore', key, member)
  return type(score) == 'string' and tonumber(score) or nil
end

local function is_in(key, member)
  return try('sismember', key, member) == 1
end

local function is_there(key)
  return call('exists', key) == 1
end

-- The latest possible time, and the longest possible lock.
local LATEST, LONGEST_LOCK = 1e12, 1e9

-- Whether a time is possible. Jobs with a time below zero never fall due.
local function is_possible(time)
  return finite(time) ~= nil and time >= 0 and time <= LATEST
end

-- The same for a lock's expiry.
local function is_possible_end(time)
  return is_possible(time) and time <= now + LONGEST_LOCK
end

-- The key of a failure group.
local function group_key(group)
  return prefix .. 'f:' .. group
end

-- The failure group of a key, or nil.
local function group_in(key)
  return between(key, group_key(''), '')
end

local FIELDS = {
  'jid', 'state', 'queue', 'worker', 'expires', 'priority', 'time', 'tags', 'failure', 'grace',
  'x:o', 'x:parked', 'scheduled', 'x:undelayed', 'history', 'klass',
  'retries', 'remaining',
}

-- A job's fields by name, or nil if the job does not exist.
local function fields_of(jid)
  local values = try('hmget', job_key(jid), unpack(FIELDS))
  local job, any = {id = jid}, false
  for i = 1, values.err and 0 or #FIELDS do
    if values[i] then
      job[FIELDS[i]], any = values[i], true
    end
  end
  return (any or is_there(job_key(jid))) and job or nil
end

-- Whether a running job's worker has lost the lock, and the grace period lasts.
local function is_graced(job)
  local ends = job.grace and job.queue and score_at(queue_key(job.queue, 'locks'), job.id)
  return is_possible_end(ends) and in_grace(job.grace, job.expires, ends)
end

-- A job's state, or nil if the job does not exist.
local function state_of(jid)
  local state = try('hget', job_key(jid), 'state')
  return type(state) == 'string' and state or is_there(job_key(jid)) and 'unknown' or nil
end

local PARTS = {
  waiting = 'work', stalled = 'work', running = 'locks', scheduled = 'scheduled',
  depends = 'depends',
}

-- The key where a job belongs by its state, or nil.
local function place_of(job)
  if PARTS[job.state] then
    return job.queue and job.queue ~= '' and queue_key(job.queue, PARTS[job.state]) or nil
  elseif job.state == 'complete' then
    return prefix .. 'completed'
  elseif job.state == 'failed' then
    local group = list_of(job.failure).group
    return type(group) == 'string' and group_key(group) or nil
  end
end

-- The type of the key where a job in a state belongs.
local function place_type(state)
  return state == 'failed' and 'list' or 'zset'
end

-- Whether a job is in a key.
local function is_at(key, jid)
  if group_in(key) then
    return type(try('lpos', key, jid)) == 'number'
  end
  return score_at(key, jid) ~= nil
end

-- The score of a waiting job.
local function waiting_score(job)
  if job.state == 'stalled' then
    return '+inf'
  end
  return exact(work_score(finite(job.time, now), job.priority))
end

-- The limit that has parked a job, or nil.
local function limit_of(job)
  return parked_by(job.state, job.time, job['x:parked'])
end

-- A job's score where it belongs; nil if unknown, as for the due time of a scheduled job.
local function usual_score(job)
  if job.state == 'waiting' or job.state == 'stalled' then
    return waiting_score(job)
  elseif job.state == 'running' then
    local ends = finite(job.expires)
    return exact(is_possible_end(ends) and ends or now)
  elseif job.state == 'complete' or job.state == 'depends' then
    return exact(finite(job.time, now))
  elseif limit_of(job) then
    return stamp
  end
end

-- Puts a job where it belongs.
local function put_in_place(job)
  local place = place_of(job)
  if job.state == 'failed' then
    call('lpush', place, job.id)
    call('sadd', prefix .. 'failures', group_in(place))
  else
    call('zadd', place, usual_score(job), job.id)
  end
end

-- Takes a member out of a set or a list.
local function take_out(key, member)
  local group = group_in(key)
  if not group then
    call('zrem', key, member)
    return
  end
  call('lrem', key, 0, member)
  if not is_there(key) then
    call('srem', prefix .. 'failures', group)
  end
end

-- Moves a job that has waited for parents, and has none left, to its next place.
local function go_on(job)
  local due = not job['x:undelayed'] and finite(job.scheduled)
  job.state = due and 'scheduled' or 'waiting'
  call('zadd', place_of(job), due and exact(due) or waiting_score(job), job.id)
  call('zrem', queue_key(job.queue, 'depends'), job.id)
  call('hset', job_key(job.id), 'state', job.state)
  call('hdel', job_key(job.id), 'scheduled', 'x:undelayed')
end
