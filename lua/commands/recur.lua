-- recur: puts a job into a queue repeatedly, at an interval.
--
-- Args     queue, jid, klass, data, 'interval', seconds, offset, then pairs: priority n, tags json,
--          retries n, backlog n; keep 1: an existing recurring job keeps its next time if queue and
--          interval are the same
-- Returns  the jid
-- Errors   Queue(), Recur()
-- Cost     4 commands
-- For      classic
-- Repeat   once
-- Waits    for replicas

local queue = named('Queue', 'queue', ARGV[3])
local jid = named('Recur', 'jid', ARGV[4])
local klass, data = required('Recur', 'klass', ARGV[5]), ARGV[6]
json('Recur', 'data', data)
if ARGV[7] ~= 'interval' then
  reject('Recur', 'schedule type "' .. tostring(ARGV[7]) .. '" unknown')
end
local interval = number('Recur', 'interval', ARGV[8])
local offset = number('Recur', 'offset', ARGV[9])
if interval <= 0 then
  reject('Recur', 'Arg "interval" must be greater than 0')
end
local given = options('Recur', 10, #ARGV)
local priority = number('Recur', 'priority', given.priority or 0)
local retries = number('Recur', 'retries', given.retries or 0)
local backlog = number('Recur', 'backlog', given.backlog or 0)
local tags = names('Recur', 'tags', given.tags)

local spawned, before, each = unpack(call('hmget', recur_key(jid), 'count', 'queue', 'interval'))
local kept = given.keep and before == queue and finite(each) == interval
  and call('zscore', queue_key(queue, 'recur'), jid)
if not kept then
  call('zadd', queue_key(queue, 'recur'), exact(now + offset), jid)
end
if before and before ~= queue then
  try('zrem', queue_key(before, 'recur'), jid)
end
call('hset', recur_key(jid), 'jid', jid, 'klass', klass, 'data', data, 'priority', priority,
  'tags', array(tags), 'state', 'recur', 'queue', queue, 'type', 'interval', 'count', spawned or 0,
  'interval', interval, 'retries', retries, 'backlog', backlog)
know_queue(queue)
if not kept then
  note_filled(queue)
  wake_for(queue, offset)
end
return jid
