-- recur.update: changes a recurring job; what it has put already stays as it is.
--
-- KEYS[1]  the namespace prefix
-- ARGV     NOW, jid, then pairs: priority, interval, retries, data, klass, queue, backlog
-- Returns  1
-- Errors   Recur() when there is no such job or an option is unknown; nothing is written then
-- Cost     3 commands

-- @include "lib/clock.lua"
-- @include "lib/check.lua"
-- @include "lib/work.lua"

local jid = required('Recurring', 'jid', ARGV[2])
local key = recur_key(jid)
local old = call('hmget', key, 'queue', 'interval')
local queue, interval = old[1], finite(old[2], 0)
if not queue then
  reject('Recur', 'Job ' .. jid .. ' does not exist')
end

local numeric = {priority = true, interval = true, retries = true, backlog = true}
local changes = options('Recur', 3, #ARGV)
for option, value in pairs(changes) do
  if numeric[option] then
    changes[option] = number('Recur', option, value)
  elseif option == 'data' then
    json('Recur', 'data', value)
  elseif option == 'queue' then
    named('Recur', 'queue', value)
  elseif option ~= 'klass' then
    reject('Recur', 'Unrecognized option "' .. option .. '"')
  end
end
if changes.interval and changes.interval <= 0 then
  reject('Recur', 'Arg "interval" must be greater than 0')
end

if changes.interval then
  call('zincrby', queue_key(queue, 'recur'), changes.interval - interval, jid)
end
if changes.queue then
  local due = call('zscore', queue_key(queue, 'recur'), jid)
  call('zrem', queue_key(queue, 'recur'), jid)
  call('zadd', queue_key(changes.queue, 'recur'), due or stamp, jid)
  know_queue(changes.queue)
end
for option, value in pairs(changes) do
  call('hset', key, option, value)
end
return true
