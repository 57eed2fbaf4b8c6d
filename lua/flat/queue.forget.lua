-- queue.forget: removes queues from the list of known queues; their jobs are kept.
--
-- KEYS[1]  the namespace prefix
-- ARGV     NOW, queue...
-- Returns  nil
-- Errors   Queue.forget() when none is named
-- Cost     2 commands for each
-- Repeat   safe
-- Needs    zrem

local call = redis.call
local prefix = KEYS[1]
local try = redis.pcall


do
  local area, name, text = 'Queue.forget', 'queue', ARGV[2]
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
  call('zrem', prefix .. 'queues', ARGV[i])
  try('zrem', prefix .. 'x:queues', ARGV[i])
end

