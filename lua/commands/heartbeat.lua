-- heartbeat: renews a worker's lock on its job for the queue's heartbeat, or the job's own lock
-- time.
--
-- KEYS[1]  the namespace prefix
-- ARGV     COMMAND, NOW, jid, worker [, data [, since]]
--          since: only a job that runs since this time, unless it is ''
-- Returns  when the lock now ends: an integer (the job keeps the fraction)
-- Errors   Heartbeat() when the job is not this worker's or not running
-- Cost     6 commands; 5 for a job with a lock time of its own
-- For      classic
-- Repeat   safe
-- Hot

local jid = required('Job', 'jid', ARGV[3])
local worker = required('Heartbeat', 'worker', ARGV[4])
local data = ARGV[5]
local since = ARGV[6] ~= '' and ARGV[6]
if data then
  json('Heartbeat', 'data', data)
end

local key = job_key(jid)
local job = call('hmget', key, 'queue', 'state', 'worker', 'grace', 'x:o', 'time')
local queue = job[1]
must_own('Heartbeat', jid, queue, job[3], job[2], worker, job[6], since)

local seconds = lock_time_of(queue, job[5])
local text = later(seconds)
local locks = queue_key(queue, 'locks')
if type(try('zadd', locks, text, jid)) == 'table' then
  must_write() -- as in add_first
  call('zadd', locks, text, jid)
end
if data then
  call('hset', key, 'expires', text, 'worker', worker, 'data', data)
else
  call('hset', key, 'expires', text, 'worker', worker)
end
if job[4] then
  call('hdel', key, 'grace')
end
try('zadd', prefix .. 'workers', stamp, worker)
try('zadd', worker_key(worker), text, jid)
return now + seconds
