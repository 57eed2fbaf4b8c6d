-- heartbeat: renews a worker's lock for the job's own lock time, or else the queue's heartbeat.
--
-- Args     jid, worker [, data [, since]]
--          since: only if this run began at this time, unless ''
-- Returns  the new expiry, as an integer (the job keeps the fraction)
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
local job = call('hmget', key, 'worker', 'state', 'time', 'queue', 'grace', 'x:o')
local queue, grace, stored = unpack(job, 4)
local problem = not_owned('Heartbeat', jid, job, worker, since)
if problem or not queue then
  raise('Heartbeat', problem or no_queue(jid))
end

local seconds = stored and own_lock_time(stored) or heartbeat_of(queue)
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
if grace then
  call('hdel', key, 'grace')
end
try('zadd', prefix .. 'workers', stamp, worker)
try('zadd', worker_key(worker), text, jid)
return now + seconds
