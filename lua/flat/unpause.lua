-- unpause: lets paused queues give jobs again.
--
-- KEYS[1]  the namespace prefix
-- ARGV     NOW, queue...
-- Returns  nil
-- Errors   Unpause() when none is named
-- Cost     2 commands for each, and those that wake a worker
-- Repeat   safe
-- Needs    exists hset publish srem time zadd zpopmax zpopmin

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

local unheard = 0
local function wake(queue)
local function finite(text, default)
  local n = text and tonumber(text)
  if n and n - n == 0 then
    return n
  end
  return default
end
local function note_missing(name, queue)
  local key = prefix .. 'x:listed:' .. name
  if try('exists', key) == 1 then
    try('hset', key, queue, '1')
  end
end
  local waiting, list, lapses = prefix .. 'x:idle:' .. queue, nil, nil
  local woken = false
  for i = 1, 2 * 100 do
    local from = list and (prefix .. 'x:list:' .. list) or waiting
    local popped = i <= 100 and try('zpopmin', from) or try('zpopmax', from)
    local name = popped[1]
    if name and string.byte(name) == 1 then
      list, lapses = string.sub(name, 2), popped[2]
    elseif name then
      local idle = try('srem', prefix .. 'x:idle', name) == 1
      woken = idle and finite(try('publish', prefix .. ('x:wake:' .. name), queue), 0) > 0
      if woken then
        break
      end
      unheard = unheard + 1
    elseif list then
      note_missing(list, queue)
      list = nil
    else
      break
    end
  end
  if list then
    try('zadd', waiting, lapses, '\1' .. list)
  end
  return woken
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

