-- pop: locks the next jobs of a queue for a worker: lost ones first, then by priority.
--
-- KEYS[1]  the namespace prefix
-- ARGV     NOW, queue, worker, count
-- Returns  a JSON array of at most count jobs, fewer when the queue has fewer,
--          none when it is paused or its running jobs have reached <queue>-max-concurrency
-- Errors   Queue(), Pop()
-- Cost     7 commands when the queue is empty, 17 for one job, 5 for each one more;
--          reading a long history is what makes a job dear

-- @include "lib/clock.lua"
-- @include "lib/check.lua"
-- @include "lib/json.lua"
-- @include "lib/bulk.lua"
-- @include "lib/events.lua"
-- @include "lib/history.lua"
-- @include "lib/stats.lua"
-- @include "lib/jobs.lua"
-- @include "lib/work.lua"
-- @include "lib/due.lua"
-- @include "lib/locks.lua"

local queue = required('Queue', 'queue', ARGV[2])
local worker = required('Pop', 'worker', ARGV[3])
local count = whole('Pop', 'count', ARGV[4])

local config = call('hmget', prefix .. 'config', queue .. '-heartbeat', 'heartbeat',
  queue .. '-max-concurrency', 'grace-period', 'max-job-history')
local heartbeat = tonumber(config[1] or config[2] or 60) or 60
local max_concurrency = tonumber(config[3] or 0) or 0
local grace = tonumber(config[4] or 10) or 10
local cap = history_cap(config[5])
local expires = exact(now + heartbeat)

-- Locks up to 500 jobs and adds their JSON to out. Jobs that are gone are dropped.
local function lock(jids, first, last, out)
  local popped = entry(now, 'popped', '{"worker":' .. cjson.encode(worker) .. '}')
  local jobs, waited, locks = {}, {}, {}
  for i = first, last do
    local jid = jids[i]
    local job = read_job(jid)
    if job[1] then
      adopt_history(jid, job[14])
      job[14] = false
      record(jid, popped, cap)
      call('hset', job_key(jid), 'state', 'running', 'worker', worker, 'expires', expires, 'time', stamp)
      job[3], job[5], job[7] = 'running', worker, expires
      jobs[#jobs + 1] = job
      waited[#waited + 1] = now - (tonumber(job[15]) or now)
      locks[#locks + 1] = expires
      locks[#locks + 1] = jid
    else
      call('zrem', queue_key(queue, 'locks'), jid)
    end
  end
  if #jobs == 0 then
    return
  end
  observe('wait', queue, waited)
  call('zadd', queue_key(queue, 'locks'), unpack(locks))
  call('zadd', worker_key(worker), unpack(locks))
  local scores = call('zmscore', prefix .. 'tracked', unpack(jids, first, last))
  local tracked = {}
  for i = first, last do
    tracked[jids[i]] = scores[i - first + 1] and true or false
  end
  for i = 1, #jobs do
    local jid = jobs[i][1]
    if tracked[jid] then
      publish('popped', jid)
    end
    out[#out + 1] = job_json(jobs[i], tracked[jid])
  end
end

local function lock_all(jids, out)
  for first = 1, #jids, 500 do
    lock(jids, first, math.min(first + 499, #jids), out)
  end
end

-- Takes up to limit jobs out of work, highest score first.
local function take_work(limit)
  local scored = call('zpopmax', queue_key(queue, 'work'), limit)
  local jids = {}
  for i = 1, #scored, 2 do
    jids[#jids + 1] = scored[i]
  end
  return jids
end

if call('sismember', prefix .. 'paused_queues', queue) == 1 then
  return '[]'
end
call('zadd', prefix .. 'workers', stamp, worker)
if max_concurrency > 0 then
  local running = call('zcount', queue_key(queue, 'locks'), stamp, '+inf')
  count = math.min(count, math.max(0, max_concurrency - running))
end
if count == 0 then
  return '[]'
end

local out = {}
local expired = take_expired(queue, count, grace, cap)
each_slice('zrem', queue_key(queue, 'work'), expired)
lock_all(expired, out)
check_recurring(queue, count - #expired)
check_scheduled(queue, count - #expired)
while #out < count do
  local jids = take_work(count - #out)
  if #jids == 0 then
    break
  end
  lock_all(jids, out)
end
return '[' .. table.concat(out, ',') .. ']'
