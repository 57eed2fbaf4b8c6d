-- length: how many jobs a queue has locked, waiting and scheduled, together.
--
-- KEYS[1]  the namespace prefix
-- ARGV     NOW, queue
-- Returns  that number
-- Errors   Queue()
-- Cost     3 commands
-- Repeat   safe
-- Needs    zcard

local call = redis.call
local prefix = KEYS[1]


local queue
do
  local area, name, text = 'Queue', 'queue', ARGV[2]
  if not text then
    local words = {
      Job = 'no jid provided', Recurring = 'no jid provided', Queue = 'no queue name provided',
    }
    do
      local area, message = area, words[area] or 'Arg "' .. name .. '" missing'
      error(area .. '(): ' .. message)
    end
  end
  queue = text
end
return call('zcard', prefix .. 'q:' .. queue .. '-locks') + call('zcard', prefix .. 'q:' .. queue .. '-work') +
  call('zcard', prefix .. 'q:' .. queue .. '-scheduled')

