-- schedule.last: when a schedule was last due, and what time it is. A new schedule counts as due
-- now, so that its first job is the next one.
--
-- KEYS[1]  the namespace prefix
-- ARGV     NOW, id
-- Returns  {last, now}, as text; last is not after now
-- Errors   Schedule.last()
-- Cost     1 command, 1 more for a new schedule
-- Repeat   once
-- Needs    hget hset time

local call = redis.call
local prefix = KEYS[1]


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
local key = prefix .. 'x:schedules'
local last
repeat
  local text, default = call('hget', key, id)
  local n = text and tonumber(text)
  if n and n - n == 0 then
    last = n
    break
  end
  last = default
until true
if not last or last > now + 60 then
  call('hset', key, id, stamp)
  last = now
end
return {string.format('%.17g', (math.min(last, now))), stamp}

