-- schedule.forget: forgets a schedule, unless a worker follows it: it would come back.
--
-- KEYS[1]  the namespace prefix
-- ARGV     NOW, id
-- Returns  'forgotten', 'followed' or 'unknown'
-- Errors   Schedule.forget()
-- Cost     4 commands
-- Repeat   once
-- Needs    del hdel hgetall time zrem

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

local id
do
  local area, name, text = 'Schedule.forget', 'id', ARGV[2]
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
if is_followed(id) then
  return 'followed'
end
local removed = call('zrem', prefix .. 'x:schedule-ids', id)
local known = call('hdel', prefix .. 'x:schedules', id)
call('del', prefix .. 'x:schedule:' .. id, prefix .. 'x:follow:' .. id)
return removed + known > 0 and 'forgotten' or 'unknown'

