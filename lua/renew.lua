-- renew: renews a worker's locks on many jobs.
--
-- KEYS[1]  the namespace prefix
-- ARGV     NOW, worker, jid...
-- Returns  an array with one text for each job: for how many seconds it is locked from now, or
--          '!' and why it could not be renewed
-- Errors   Renew()
-- Cost     4 commands, 1 for each queue and 2 for each job

-- @include "lib/check.lua"
-- @include "lib/clock.lua"
-- @include "lib/bulk.lua"
-- @include "lib/owner.lua"

local worker = required('Renew', 'worker', ARGV[2])

local heartbeats = {} -- by queue
local outcomes, by_queue, all = {}, {}, {}
for i = 3, #ARGV do
  local jid = ARGV[i]
  local key = job_key(jid)
  local job = call('hmget', key, 'queue', 'state', 'worker', 'grace')
  local queue = job[1]
  local problem = not_owned(jid, job[3], job[2], worker)
  if problem then
    outcomes[i - 2] = '!' .. problem
  else
    local heartbeat = heartbeats[queue] or heartbeat_of(queue)
    heartbeats[queue] = heartbeat
    local expires = exact(now + heartbeat)
    call('hset', key, 'expires', expires)
    if job[4] then
      call('hdel', key, 'grace')
    end
    local locks = by_queue[queue] or {}
    by_queue[queue] = locks
    locks[#locks + 1] = expires
    locks[#locks + 1] = jid
    all[#all + 1] = expires
    all[#all + 1] = jid
    outcomes[i - 2] = exact(heartbeat)
  end
end
for queue, locks in pairs(by_queue) do
  each_slice('zadd', queue_key(queue, 'locks'), locks)
end
each_slice('zadd', worker_key(worker), all)
call('zadd', prefix .. 'workers', stamp, worker)
return outcomes
