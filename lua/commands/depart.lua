-- depart: deregisters a stopping worker, and wakes other workers for the jobs that it waited for.
--
-- Args     worker, claim, relays, queue...
--          claim     the claim returned by its last reserve
--          relays    '1' if it relayed the puts of classic clients: another worker takes over
-- Returns  nil
-- Errors   Depart()
-- Cost     5 commands, 2 for each queue, or 3 in all if there are more than 16
-- For      Go
-- Repeat   once

local worker = required('Depart', 'worker', ARGV[3])
local claim, relays = required('Depart', 'claim', ARGV[4]), ARGV[5]

try('zrem', prefix .. 'workers', worker)
local holds = false -- a job timed out stays among the worker's jobs, even if another worker has it
for _, jid in ipairs(try('zrange', worker_key(worker), 0, -1)) do
  holds = holds or is_held(worker, jid)
end
if not holds then
  call('del', worker_key(worker))
end
call('del', registry_key(worker))
try('srem', idle_key(), worker)
local waits = worker -- the entry that leaves each queue, or false
if #ARGV - 5 > FEW_QUEUES then
  local list = redis.sha1hex(cjson.encode({unpack(ARGV, 6)}))
  try('zrem', waiters_key(list), worker)
  waits = call('exists', waiters_key(list)) == 0 and '\1' .. list
  if waits then
    call('del', listed_key(list))
  end
end
for i = 6, waits and #ARGV or 0 do
  try('zrem', waiting_key(ARGV[i]), waits)
end
if claim ~= '' then
  call('del', due_key(claim))
end
for i = 6, #ARGV do
  wake(ARGV[i])
end
if relays == '1' then
  try('set', unrelayed_key(), '1', 'EX', '10')
  for _ = 1, PASSED do
    local other = try('spop', idle_key()) -- any, whatever its queues
    if type(other) ~= 'string' or finite(publish('x:wake:' .. other, ''), 0) > 0 then
      return
    end
  end
end
