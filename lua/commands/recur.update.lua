-- recur.update: changes a recurring job. Jobs already put stay unchanged.
--
-- Args     jid, then pairs: priority, interval, retries, data, klass, queue, backlog, tags json
-- Returns  1
-- Errors   Recur() when there is no such job or an option is unknown; nothing is written then
-- Cost     3 commands, and 1 for each further pair
-- For      classic
-- Repeat   once

local jid = required('Recurring', 'jid', ARGV[3])
local key = recur_key(jid)
local queue, interval = unpack(call('hmget', key, 'queue', 'interval'))
interval = finite(interval, 0)
if not queue then
  raise('Recur', new_problem('not_found', nil, 'No recurring job ' .. jid))
end

local checks = {
  priority = number, interval = number, retries = number, backlog = number, data = json,
  tags = names, queue = named, klass = required,
}
local changes = options('Recur', 4, #ARGV)
for option, value in pairs(changes) do
  local check = checks[option]
  if not check then
    reject('Recur', 'Unrecognized option "' .. option .. '"')
  end
  local checked = check('Recur', option, value)
  changes[option] = check == number and checked or value
end
if changes.interval and changes.interval <= 0 then
  reject('Recur', 'Arg "interval" must be greater than 0')
end

-- The time of the next job and its queue are written first, because that may fail.
local due = tonumber(call('zscore', queue_key(queue, 'recur'), jid) or nil) or now
if changes.interval then
  due = due + changes.interval - interval
end
if changes.queue or changes.interval then
  local target = changes.queue or queue
  call('zadd', queue_key(target, 'recur'), exact(due), jid)
  if target ~= queue then
    try('zrem', queue_key(queue, 'recur'), jid)
  end
  if changes.queue then
    know_queue(target)
  end
  note_filled(target)
  wake_for(target, due - now)
end
for option, value in pairs(changes) do
  call('hset', key, option, value)
end
return true
