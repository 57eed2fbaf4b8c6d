-- What the scripts of the doctor share. Each is called for some items, checks every one of them, and
-- returns what is broken. Called for one kind of problem, it repairs that: it has checked again, in
-- the same step, that there is such a problem.
--
-- KEYS[1]  the namespace prefix
-- ARGV     NOW, or '' for the server's clock; the kind to repair, or '' to check; then the items: a key
--          without the prefix and, of a set or a list, a member, or ''
-- Returns  an array of problems: kind, key, member, details, and 1 if it can be repaired,
--          else 0. When it repairs, those that it has repaired

local call, try = redis.call, redis.pcall
local prefix, wanted = KEYS[1], ARGV[2]
local problems = {}

-- What an open batch depends on: no job has this jid.
local OPEN = 'x:open'

local function finite(text, default)
  local n = text and type(text) ~= 'table' and tonumber(text)
  return n and n - n == 0 and n or default
end

local stamp = ARGV[1]
if stamp == '' then
  local time = call('time')
  stamp = time[1] .. string.format('.%06d', time[2])
end
local now = tonumber(stamp)

local function exact(n)
  return string.format('%.17g', n)
end

-- Tells of a problem, or repairs it. repair is false if nothing can be done safely.
local function problem(kind, key, member, details, repair)
  if wanted == '' or wanted == kind and repair then
    problems[#problems + 1] = {kind, key, member, details, repair and '1' or '0'}
  end
  if wanted == kind and repair then
    repair()
  end
end

-- Calls a function for each item.
local function each(check)
  for i = 3, #ARGV, 2 do
    check(ARGV[i], ARGV[i + 1])
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
local function score_in(key, member)
  local score = try('zscore', prefix .. key, member)
  return type(score) == 'string' and tonumber(score) or nil
end

local function is_in(key, member)
  return try('sismember', prefix .. key, member) == 1
end

local function exists(key)
  return call('exists', prefix .. key) == 1
end

-- The decoded JSON of a field, or an empty table.
local function decoded(text)
  local ok, value = pcall(cjson.decode, type(text) == 'string' and text or '')
  return ok and type(value) == 'table' and value or {}
end

-- The letters and the values of the field x:o.
local function options_of(stored)
  local letters, body = string.match(stored or '', '^(%a+)|(.*)$')
  return letters or '', decoded(body)
end

local FIELDS = {
  'jid', 'state', 'queue', 'worker', 'expires', 'priority', 'time', 'tags', 'failure', 'grace', 'x:o',
  'x:parked', 'scheduled', 'x:undelayed', 'history',
}

-- The fields of a job, or nil if there is no such job.
local function read_job(jid)
  local values = try('hmget', prefix .. 'j:' .. jid, unpack(FIELDS))
  local job, any = {id = jid}, false
  for i = 1, values.err and 0 or #FIELDS do
    if values[i] then
      job[FIELDS[i]], any = values[i], true
    end
  end
  return (any or exists('j:' .. jid)) and job or nil
end

-- Whether the worker of a running job has lost it, and the grace period lasts. A job that was timed
-- out in one keeps the field.
local function in_grace(job)
  local lock = job.grace == '1' and job.queue and score_in('q:' .. job.queue .. '-locks', job.id)
  return lock and math.abs(lock - finite(job.expires, 0)) > 0.001
end

-- The state of a job, nil if there is no such job.
local function state_of(jid)
  local state = try('hget', prefix .. 'j:' .. jid, 'state')
  return type(state) == 'string' and state or exists('j:' .. jid) and 'unknown' or nil
end

local PARTS = {
  waiting = 'work', stalled = 'work', running = 'locks', scheduled = 'scheduled', depends = 'depends',
}

-- The key that a job belongs into by its state, or nil.
local function place_of(job)
  if PARTS[job.state] then
    return job.queue and job.queue ~= '' and 'q:' .. job.queue .. '-' .. PARTS[job.state] or nil
  elseif job.state == 'complete' then
    return 'completed'
  elseif job.state == 'failed' then
    local group = decoded(job.failure).group
    return type(group) == 'string' and 'f:' .. group or nil
  end
end

-- Whether a job is in a key.
local function is_at(key, job)
  if string.sub(key, 1, 2) == 'f:' then
    return type(try('lpos', prefix .. key, job.id)) == 'number'
  end
  return score_in(key, job.id) ~= nil
end

local function work_score(job)
  if job.state == 'stalled' then
    return '+inf'
  end
  return exact(finite(job.priority, 0) - finite(job.time, now) / 10000000000)
end

-- The limit that has parked a job, or nil.
local function parked_by(job)
  local since, name = string.match(job['x:parked'] or '', '^(%S*) (.+)$')
  return job.state == 'scheduled' and since == (job.time or '') and name or nil
end

-- The score of a job where it belongs; nil if nobody knows, such as when a scheduled job falls due.
local function score_of(job)
  if job.state == 'waiting' or job.state == 'stalled' then
    return work_score(job)
  elseif job.state == 'running' then
    return exact(finite(job.expires, now))
  elseif job.state == 'complete' or job.state == 'depends' then
    return exact(finite(job.time, now))
  elseif parked_by(job) then
    return stamp
  end
end

-- Puts a job where it belongs.
local function put_in_place(job)
  local place = place_of(job)
  if job.state == 'failed' then
    call('lpush', prefix .. place, job.id)
    call('sadd', prefix .. 'failures', string.sub(place, 3))
  else
    call('zadd', prefix .. place, score_of(job), job.id)
  end
end

-- Takes a member out of a set or a list.
local function take_out(key, member)
  if string.sub(key, 1, 2) ~= 'f:' then
    call('zrem', prefix .. key, member)
    return
  end
  call('lrem', prefix .. key, 0, member)
  if not exists(key) then
    call('srem', prefix .. 'failures', string.sub(key, 3))
  end
end

-- Puts a job that waits for others, and has none left, where it goes next.
local function free(job)
  local due = not job['x:undelayed'] and finite(job.scheduled)
  job.state = due and 'scheduled' or 'waiting'
  call('zadd', prefix .. place_of(job), due and exact(due) or work_score(job), job.id)
  call('zrem', prefix .. 'q:' .. job.queue .. '-depends', job.id)
  call('hset', prefix .. 'j:' .. job.id, 'state', job.state)
  call('hdel', prefix .. 'j:' .. job.id, 'scheduled', 'x:undelayed')
end

