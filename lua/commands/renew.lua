-- renew: renews a worker's locks on many jobs.
--
-- Args     worker, jid...
-- Returns  an array with a text for each job: the lock time in seconds from now, or '!' and the
--          problem, in the format of text_of
-- Errors   Renew()
-- Cost     4 commands, 1 for each queue and 2 for each job
-- For      Go
-- Repeat   once

local worker = required('Renew', 'worker', ARGV[3])

local heartbeats = {} -- by queue
local outcomes, by_queue, all = {}, {}, {}

-- Reads a job and records the new end of its lock. Returns the problem, or nil.
local function read_lock(jid, i)
  local job = try('hmget', job_key(jid), 'worker', 'state', 'queue', 'grace', 'x:o')
  local queue, grace, stored = unpack(job, 3)
  local problem = job.err and job or not_owned('Renew', jid, job, worker)
  if problem or not queue then
    return problem or no_queue(jid)
  end
  local seconds = stored and own_lock_time(stored) or heartbeats[queue]
  if not seconds then
    seconds = kept_lock_time(heartbeat_of(queue))
    heartbeats[queue] = seconds
  end
  local its = by_queue[queue] or {jobs = {}, locks = {}}
  by_queue[queue] = its
  its.jobs[#its.jobs + 1] = {at = i, jid = jid, grace = grace, lasts = seconds}
  add_pair(its.locks, exact(now + seconds), jid)
end

-- Renews the locks of one queue, all of them or none.
local function renew_queue(queue, its)
  local reply = try('zadd', queue_key(queue, 'locks'), unpack(its.locks))
  if type(reply) == 'table' then
    must_write() -- as in add_first
    reply = try('zadd', queue_key(queue, 'locks'), unpack(its.locks))
  end
  for i, job in ipairs(its.jobs) do
    if type(reply) == 'table' then
      outcomes[job.at] = '!' .. text_of(reply)
    else
      local expires = its.locks[2 * i - 1]
      call('hset', job_key(job.jid), 'expires', expires)
      if job.grace then
        call('hdel', job_key(job.jid), 'grace')
      end
      add_pair(all, expires, job.jid)
      outcomes[job.at] = exact(job.lasts)
    end
  end
end

for i = 4, #ARGV do
  local problem = read_lock(ARGV[i], i - 3)
  if problem then
    outcomes[i - 3] = '!' .. text_of(problem)
  end
end
for queue, its in pairs(by_queue) do
  renew_queue(queue, its)
end
each_slice(try, 'zadd', worker_key(worker), all)
try('zadd', prefix .. 'workers', stamp, worker)
return outcomes
