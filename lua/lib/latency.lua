-- The waiting times of a queue's ready jobs, by their scores.

local MAX_BANDS = 16

-- The maximum number of jobs without a time in their scores to read in each priority.
local MAX_READ = '8'

-- Above all scores, except of timed-out jobs.
local LARGEST = 2 ^ 53

-- A score without a time differs from its priority by at most this, the year 2001.
local NO_TIME = 0.1

-- The scores of jobs taking turns (lib/fair.lua) differ by at least this.
local TURNS = 0.5

-- Returns the time since which a job with a score has been waiting, and its priority.
local function since_when(jid, score)
  local priority, time = unpack(try('hmget', job_key(jid), 'priority', 'time'))
  priority = finite(priority, 0)
  local at = (priority - score) * 10000000000
  if at >= NO_TIME * 10000000000 and at <= now + 1 then
    return at, priority
  end
  return finite(time, now), priority
end

-- Notes since when a job of a priority has been waiting. bands.longest is the longest of all waits.
local function add_wait(bands, priority, at)
  local waited = math.max(now - at, 0)
  bands.longest = math.max(bands.longest or 0, waited)
  for i = 1, #bands do
    if bands[i].priority == priority then
      bands[i].waited = math.max(bands[i].waited, waited)
      return
    end
  end
  bands[#bands + 1] = {priority = priority, waited = waited}
end

-- Adds the first jobs of work with scores from one down to another, at most limit.
local function add_some(bands, work, from, to, limit)
  local found = call('zrevrangebyscore', work, from, to, 'WITHSCORES', 'LIMIT', '0', limit)
  for i = 1, #found, 2 do
    local at, priority = since_when(found[i], finite(found[i + 1], math.huge))
    add_wait(bands, priority, at)
  end
end

-- Adds jobs of a priority whose first job has this score: jobs without a time in their scores, the
-- oldest job in order of age, and the first job taking turns.
local function add_band(bands, work, priority, score)
  if score > priority - NO_TIME then
    add_some(bands, work, exact(score), '(' .. exact(priority - NO_TIME), MAX_READ)
  end
  if score > priority - TURNS then
    add_some(bands, work, exact(priority - NO_TIME), '(' .. exact(priority - TURNS), '1')
  end
  add_some(bands, work, exact(priority - TURNS), '(' .. exact(priority - 1), '1')
end

-- Adds the first jobs of each priority in work. Reports whether there are more priorities.
local function add_waiting(bands, queue)
  local work, from = queue_key(queue, 'work'), '+inf'
  for _ = 0, MAX_BANDS do
    local head = call('zrevrangebyscore', work, from, '-inf', 'WITHSCORES', 'LIMIT', '0', '1')[2]
    local score = finite(head)
    if not head or not score and string.sub(head, 1, 1) == '-' then
      return false
    elseif #bands >= MAX_BANDS then
      return true
    elseif not score then
      add_some(bands, work, '+inf', '+inf', MAX_READ)
      from = exact(LARGEST)
    else
      local priority = math.ceil(score)
      add_band(bands, work, priority, score)
      from = exact(priority - 1)
    end
  end
  return true
end

-- Adds the first job of a part of a queue if due. Returns the due time, or nil.
local function add_due(bands, queue, part) -- cold
  local first = call('zrange', queue_key(queue, part), 0, 0, 'WITHSCORES')
  local due = tonumber(first[2])
  if due and due <= now then
    local key = part == 'recur' and recur_key(first[1]) or job_key(first[1])
    add_wait(bands, finite(unpack(try('hmget', key, 'priority')), 0), due)
  end
  return due
end
