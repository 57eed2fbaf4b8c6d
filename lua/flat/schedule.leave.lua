-- schedule.leave: notes that a worker that stops follows its schedules no more.
--
-- KEYS[1]  the namespace prefix
-- ARGV     NOW, worker, id...
-- Returns  nil
-- Errors   Schedule.leave()
-- Cost     1 command for each
-- Repeat   safe
-- Needs    hdel time

local call = redis.call
local prefix = KEYS[1]
local try = redis.pcall



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


local worker
do
  local area, name, text = 'Schedule.leave', 'worker', ARGV[2]
  if not text then
    local words = {
      Job = 'no jid provided', Recurring = 'no jid provided', Queue = 'no queue name provided',
    }
    do
      local area, message = area, words[area] or 'Arg "' .. name .. '" missing'
      error(area .. '(): ' .. message)
    end
  end
  worker = text
end
for i = 3, #ARGV do
  try('hdel', prefix .. 'x:follow:' .. ARGV[i], worker)
end

