-- Ending a worker's hold on a job otherwise than by completing it.

-- @include "lib/clock.lua"
-- @include "lib/json.lua"
-- @include "lib/events.lua"
-- @include "lib/history.lua"
-- @include "lib/stats.lua"
-- @include "lib/work.lua"
-- @include "lib/failures.lua"
-- @include "lib/owner.lua"
-- @include "lib/wake.lua"

-- Reads a job that this worker is to have; why it has it not, or nil.
local function read_owned(item, worker)
  local job = call('hmget', job_key(item.jid), 'queue', 'state', 'worker', 'priority', 'remaining', 'history', 'grace')
  local problem = not_owned(item.jid, job[3], job[2], worker)
  if problem then
    return problem
  end
  item.current, item.priority, item.remaining = job[1], job[4], math.floor(finite(job[5], 0))
  adopt_history(item.jid, job[6])
  if job[7] then
    call('hdel', job_key(item.jid), 'grace')
  end
end

local function save_data(item)
  if item.data ~= '' then
    call('hset', job_key(item.jid), 'data', item.data)
  end
end

-- Gives back a job's lock.
local function unlock_one(item, worker)
  call('zrem', queue_key(item.current, 'locks'), item.jid)
  call('zrem', worker_key(worker), item.jid)
  wake_for_slot(item.current)
end

-- Makes a job wait in a queue, for its delay or at a score of work; its state then.
local function enqueue(item, queue, score)
  if item.delay > 0 then
    call('zadd', queue_key(queue, 'scheduled'), exact(now + item.delay), item.jid)
    return 'scheduled'
  end
  call('zadd', queue_key(queue, 'work'), score, item.jid)
  return 'waiting'
end

-- Fails a job: {jid, data, group, message}; why not, or nil.
local function fail(worker, item)
  local problem = read_owned(item, worker)
  if problem then
    return problem
  end
  local jid, group, message = item.jid, item.group, item.message
  publish('log', cjson.encode({jid = jid, event = 'failed', worker = worker, group = group, message = message}))
  publish_tracked('failed', jid)
  unlock_one(item, worker)
  leave_queue(item.current, jid)
  record(job_key(jid), entry(now, 'failed', cjson.encode({worker = worker, group = group})))
  tally_failure(item.current)
  call('hset', job_key(jid), 'state', 'failed', 'worker', '', 'expires', '',
    'failure', failure_json(group, message, math.floor(now), worker))
  save_data(item)
  add_failure(jid, group)
end

-- Gives a job back at the price of a retry: {jid, queue, data, delay, group, message}, the
-- last two being optional. Sets what remains; why not, or nil.
local function retry(worker, item)
  local problem = read_owned(item, worker)
  if problem then
    return problem
  end
  local jid, queue, group, message = item.jid, item.queue, item.group, item.message
  item.remaining = item.remaining - 1
  call('hset', job_key(jid), 'remaining', item.remaining)
  unlock_one(item, worker)
  save_data(item)
  local failure
  if group and message then
    failure = failure_json(group, message, math.floor(now), worker)
  end
  if item.remaining < 0 then
    group = group or 'failed-retries-' .. queue
    failure = failure or failure_json(group, 'Job exhausted retries in queue "' .. item.current .. '"', now, '')
    fail_exhausted(jid, queue, group, failure)
    return
  end
  call('hset', job_key(jid), 'state', enqueue(item, queue, work_score(now, item.priority)))
  if failure then
    call('hset', job_key(jid), 'failure', failure)
  end
  wake_for(queue, item.delay)
end

-- Gives a job back for nothing: {jid, data, delay}. Without a delay it is the first of its
-- priority again. Why not, or nil.
local function release(worker, item)
  local problem = read_owned(item, worker)
  if problem then
    return problem
  end
  unlock_one(item, worker)
  save_data(item)
  local state = enqueue(item, item.current, item.priority)
  call('hset', job_key(item.jid), 'state', state, 'worker', '', 'expires', '0')
  wake_for(item.current, item.delay)
end
