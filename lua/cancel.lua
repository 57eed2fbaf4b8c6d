-- cancel: deletes jobs, whatever their state; completed ones are left alone.
--
-- KEYS[1]  the namespace prefix
-- ARGV     NOW, jid...
-- Returns  the jids, existing or not
-- Errors   Cancel() when a job depends on one of them and is not itself among them
-- Cost     14 commands a job
-- Repeat   once
-- Needs    del exists expire get hdel hexists hget hincrby hmget hset lindex lpush lrem ltrim
--          publish rpush sadd scard smembers srem time zadd zincrby zpopmax zpopmin zrangebyscore
--          zrem zrevrangebyscore zscore

-- @include "lib/base.lua"
-- @include "lib/check.lua"
-- @include "lib/ended.lua"
-- @include "lib/events.lua"
-- @include "lib/failures.lua"
-- @include "lib/json.lua"
-- @include "lib/tags.lua"
-- @include "lib/wake.lua"
-- @include "lib/work.lua"

local among = {}
for i = 2, #ARGV do
  among[ARGV[i]] = true
end
for i = 2, #ARGV do
  for _, dependent in ipairs(call('smembers', job_key(ARGV[i]) .. '-dependents')) do
    if not among[dependent] then
      reject('Cancel', ARGV[i] .. ' is a dependency of ' .. dependent ..
        ' but is not mentioned to be canceled')
    end
  end
end

-- Reads the jobs, each once.
local function read_jobs()
  local jobs = {}
  for i = 2, #ARGV do
    local jid = ARGV[i]
    local key = job_key(jid)
    if not jobs[jid] then
      jobs[jid] = call('hmget', key, 'state', 'queue', 'failure', 'worker', 'tags', 'x:o')
      jobs[jid].dependencies = call('smembers', key .. '-dependencies')
    end
  end
  return jobs
end

local function cancel(jid, job)
  local key = job_key(jid)
  local state, queue, failure, worker = job[1], job[2], job[3], job[4]
  if state == 'complete' then
    return
  end
  local message = cjson.encode({jid = jid, worker = worker, event = 'canceled', queue = queue})
  publish('log', message)
  if worker and worker ~= '' then
    try('zrem', worker_key(worker), jid)
    publish('w:' .. worker, message)
  end
  if queue then
    leave_queue(queue, jid)
  end
  if state == 'running' and queue then
    wake_for_slot(queue)
  end
  for _, other in ipairs(job.dependencies) do
    try('srem', job_key(other) .. '-dependents', jid)
  end
  if state == 'failed' then
    forget_failure(jid, queue, failure)
  end
  remove_tags(jid, names_of(job[5]), 1)
  call('del', key, key .. '-history', key .. '-dependencies')
  publish_tracked('canceled', jid)
  if job[6] then
    job_ended(jid, job[6], 'canceled')
  end
end

must_publish()
local jobs, jids = read_jobs(), {}
local gone = {false, false, false, false, false, false, dependencies = {}}
for i = 2, #ARGV do
  local jid = ARGV[i]
  cancel(jid, jobs[jid])
  if jobs[jid][1] ~= 'complete' then
    jobs[jid] = gone
  end
  jids[i - 1] = jid
end
return jids
