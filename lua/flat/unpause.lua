-- unpause: lets paused queues give jobs again.
--
-- KEYS[1]  the namespace prefix
-- ARGV     NOW, queue...
-- Returns  nil
-- Errors   Unpause() when none is named
-- Cost     2 commands for each, and those that wake a worker
-- Repeat   safe
-- Needs    publish srem time zpopmax zpopmin

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

local function wake(queue)
local function finite(text, default)
  local n = text and tonumber(text)
  if n and n - n == 0 then
    return n
  end
  return default
end
  local waiting = prefix .. 'x:idle:' .. queue
  for i = 1, 2 * 100 do
    local worker = (i <= 100 and try('zpopmin', waiting) or try('zpopmax', waiting))[1]
    if not worker then
      return
    end
    local idle = try('srem', prefix .. 'x:idle', worker) == 1
    if idle and finite(try('publish', prefix .. ('x:wake:' .. worker), queue), 0) > 0 then
      return true
    end
  end
end

do
  local area, name, text = 'Unpause', 'queue', ARGV[2]
  if not text then
    local words = {
      Job = 'no jid provided', Recurring = 'no jid provided', Queue = 'no queue name provided',
    }
    do
      local area, message = area, words[area] or 'Arg "' .. name .. '" missing'
      error(area .. '(): ' .. message)
    end
  end
end
for i = 2, #ARGV do
  if call('srem', prefix .. 'paused_queues', ARGV[i]) == 1 then
    do
      local event = {event = 'unpaused', queue = ARGV[i]}
      try('publish', prefix .. 'x:log', (cjson.encode(event)))
    end
  end
  wake(ARGV[i])
end

