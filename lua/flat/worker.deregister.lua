-- worker.deregister: removes workers from the list of known workers; they keep their locks.
--
-- KEYS[1]  the namespace prefix
-- ARGV     NOW, worker...
-- Returns  nil
-- Errors   Worker.deregister() when none is named
-- Cost     2 commands for each
-- Repeat   safe
-- Needs    del zrem

local call = redis.call
local prefix = KEYS[1]



do
  local area, name, text = 'Worker.deregister', 'worker', ARGV[2]
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
  call('zrem', prefix .. 'workers', ARGV[i])
  call('del', prefix .. 'x:worker:' .. ARGV[i])
end

