-- pause: keeps queues from giving jobs until they are unpaused.
--
-- KEYS[1]  the namespace prefix
-- ARGV     NOW, queue...
-- Returns  nil
-- Errors   Pause() when none is named
-- Cost     2 commands for each
-- Repeat   safe
-- Needs    publish sadd

local call = redis.call
local prefix = KEYS[1]
local try = redis.pcall




do
  local area, name, text = 'Pause', 'queue', ARGV[2]
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
  if call('sadd', prefix .. 'paused_queues', ARGV[i]) == 1 then
    do
      local event = {event = 'paused', queue = ARGV[i]}
      try('publish', prefix .. 'x:log', (cjson.encode(event)))
    end
  end
end

