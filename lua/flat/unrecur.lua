-- unrecur: deletes a recurring job; jobs that it has put are kept.
--
-- KEYS[1]  the namespace prefix
-- ARGV     NOW, jid
-- Returns  1, existing or not
-- Errors   Recurring()
-- Cost     3 commands
-- Repeat   safe
-- Needs    del hget zrem

local call = redis.call
local prefix = KEYS[1]


local jid
do
  local area, name, text = 'Recurring', 'jid', ARGV[2]
  if not text then
    local words = {
      Job = 'no jid provided', Recurring = 'no jid provided', Queue = 'no queue name provided',
    }
    do
      local area, message = area, words[area] or 'Arg "' .. name .. '" missing'
      error(area .. '(): ' .. message)
    end
  end
  jid = text
end
local queue = call('hget', prefix .. 'r:' .. jid, 'queue')
if queue then
  call('zrem', prefix .. 'q:' .. queue .. '-recur', jid)
  call('del', prefix .. 'r:' .. jid)
end
return true

