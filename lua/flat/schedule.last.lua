-- schedule.last: when a schedule was last due, and what time it is. A new schedule counts as due
-- now, so that its first job is the next one. Notes which worker asks, as one that follows it.
--
-- KEYS[1]  the namespace prefix
-- ARGV     NOW, id [, worker, digest]
--          digest stands for what the worker puts, and when
-- Returns  {last, now, what}, as text; last is not after now. What is empty, 'register' if the
--          worker is to register the schedule, or 'differs' if others follow another one
-- Errors   Schedule.last()
-- Cost     5 commands, 2 more for a new schedule or worker
-- Repeat   once
-- Needs    expire hget hgetall hmget hset time

local call = redis.call
local prefix = KEYS[1]
local try = redis.pcall
local function finite(text, default)
  local n = text and tonumber(text)
  if n and n - n == 0 then
    return n
  end
  return default
end

local function named(area, name, text)
  do
    local area, name, text = area, name, text ~= '' and text
    if not text then
      local words = {
        Job = 'no jid provided', Recurring = 'no jid provided', Queue = 'no queue name provided',
      }
      do
        local area, message = area, words[area] or 'Arg "' .. name .. '" missing'
        error(area .. '(): ' .. message)
      end
    end
    return text
  end
end

local stamp, usual = ARGV[1], true
if stamp == '' then
  local time = call('time')
  stamp = time[1] .. string.format('.%06d', time[2])
else
  usual = stamp and string.find(stamp, '^%d+%.?%d*$')
end
local now = usual and stamp + 0 or tonumber(stamp)
if not now or now - now ~= 0 then
  error('Arg "now" missing or not a number: ' .. tostring(stamp))
end
if not usual then
  stamp = string.format('%.17g', now)
end


local function read_follower(text)
  if type(text) ~= 'string' then
    return nil
  end
  local since, seen, digest = string.match(text, '^(%S+) (%S+) (%S+)$')
  return finite(since) and since, finite(seen), digest
end
local function is_followed(id, digest)
  local followers = try('hgetall', prefix .. 'x:follow:' .. id)
  for i = 2, #followers, 2 do
    local _, seen, its = read_follower(followers[i])
    if seen and seen > now - 180 and (not digest or its == digest) then
      return true
    end
  end
  return false
end

local function note_follower(id, worker, digest)
  local key = prefix .. 'x:follow:' .. id
  local since, _, before = read_follower(try('hget', key, worker))
  local schedule = try('hmget', prefix .. 'x:schedule:' .. id, 'digest', 'seen')
  local registered = schedule[1]
  try('hset', key, worker, (since or stamp) .. ' ' .. stamp .. ' ' .. digest)
  try('expire', key, 180)
  try('hset', prefix .. 'x:schedule:' .. id, 'seen', stamp)
  if math.floor(finite(schedule[2], 0) / 60) ~= math.floor(now / 60) then
    do
      local id = id
      local followers, gone = try('hgetall', prefix .. 'x:follow:' .. id), {}
      for i = 1, #followers, 2 do
        local _, seen = read_follower(followers[i + 1])
        if not seen or seen <= now - 180 then
          gone[#gone + 1] = followers[i]
        end
      end
      do
        local run, operation, key, list = try, 'hdel', prefix .. 'x:follow:' .. id, gone
        for from = 1, #list, 1000 do
          run(operation, key, unpack(list, from, math.min(from + 999, #list)))
        end
      end
    end
  end
  if registered == digest then
    return ''
  elseif before ~= digest or type(registered) ~= 'string' or not is_followed(id, registered) then
    return 'register'
  end
  return 'differs'
end
local id
do
  local area, name, text = 'Schedule.last', 'id', ARGV[2]
  if not text then
    local words = {
      Job = 'no jid provided', Recurring = 'no jid provided', Queue = 'no queue name provided',
    }
    do
      local area, message = area, words[area] or 'Arg "' .. name .. '" missing'
      error(area .. '(): ' .. message)
    end
  end
  id = text
end
local worker = ARGV[3]
local digest = worker and named('Schedule.last', 'digest', ARGV[4])
local key = prefix .. 'x:schedules'
local last = finite(call('hget', key, id))
if not last or last > now + 60 then
  call('hset', key, id, stamp)
  last = now
end
return {string.format('%.17g', (math.min(last, now))), stamp, worker and note_follower(id, worker, digest) or ''}

