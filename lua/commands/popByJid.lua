-- popByJid: locks one waiting job of a queue for a worker. For clients in PHP.
--
-- Args     queue, jid, worker
-- Returns  a JSON array of one element: the job, or an empty object if the job is not waiting in
--          this queue, has expired, finds no room in its limits, or the queue is paused. It may
--          exceed <queue>-max-concurrency and <queue>-max-rate
-- Errors   Queue(), Pop()
-- Cost     3 commands when there is no such job, else 17
-- For      PHP
-- Repeat   once

local queue = required('Queue', 'queue', ARGV[3])
local jid = required('Pop', 'jid', ARGV[4])
local worker = required('Pop', 'worker', ARGV[5])

must_publish()
local state, current, stored = unpack(call('hmget', job_key(jid), 'state', 'queue', 'x:o'))
if state ~= 'waiting' or current ~= queue or
  call('sismember', prefix .. 'paused_queues', queue) == 1 then
  return '[{}]'
end
local settings = read_settings(queue)
if stored and has_option(stored, LIMITED) then
  settings.score = call('zscore', queue_key(queue, 'work'), jid)
end
call('zcard', queue_key(queue, 'locks')) -- fails unless the job can be locked
if call('zrem', queue_key(queue, 'work'), jid) == 0 then
  return '[{}]'
end
local out = {}
settings.worker = worker
lock(settings, {jid}, popped_json, out)
if met_limits then
  settle_limits()
end
add_first(prefix .. 'workers', stamp, worker)
return dropped == 0 and out[1] and '[' .. out[1] .. ']' or '[{}]'
