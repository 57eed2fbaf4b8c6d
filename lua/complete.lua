-- complete: ends a worker's job well: for good, or on to its next queue.
--
-- KEYS[1]  the namespace prefix
-- ARGV     NOW, jid, worker, queue, data, then pairs: next queue, delay n, depends json (both need next)
-- Returns  the state after it: 'complete', 'waiting', 'scheduled' or 'depends'
-- Errors   Complete() when the job is not this worker's, not running, or runs in another queue
-- Cost     15 commands, 3 more for each dependent; clears away at most 100 old jobs

-- @include "lib/clock.lua"
-- @include "lib/check.lua"
-- @include "lib/json.lua"
-- @include "lib/events.lua"
-- @include "lib/history.lua"
-- @include "lib/stats.lua"
-- @include "lib/tags.lua"
-- @include "lib/deps.lua"
-- @include "lib/work.lua"
-- @include "lib/owner.lua"

local jid = required('Job', 'jid', ARGV[2])
local worker = required('Complete', 'worker', ARGV[3])
local queue = required('Complete', 'queue', ARGV[4])
local data = ARGV[5]
json('Complete', 'data', data)
local given = options('Complete', 6)
local next_queue = given.next
local delay = number('Complete', 'delay', given.delay or 0)
local depends = names('Complete', 'depends', given.depends or '[]')
if not next_queue and (given.delay or given.depends) then
  reject('Complete', '"delay" and "depends" need a "next"')
end

-- At most this many old jobs are cleared away by one complete: more would stall the server.
local PRUNED = 100

local function delete_job(old)
  for _, tag in ipairs(list_of(call('hget', job_key(old), 'tags') or nil)) do
    remove_tag(old, tag)
  end
  local key = job_key(old)
  call('del', key, key .. '-history', key .. '-dependencies')
end

-- Deletes completed jobs that are too old, or too many.
local function prune(keep_seconds, keep_count)
  local completed = prefix .. 'completed'
  local old = call('zrangebyscore', completed, 0, exact(now - keep_seconds), 'LIMIT', 0, PRUNED)
  local excess = call('zcard', completed) - keep_count
  if excess > #old then
    old = call('zrange', completed, 0, math.min(excess, PRUNED) - 1)
  end
  if #old > 0 then
    for i = 1, #old do
      delete_job(old[i])
    end
    call('zrem', completed, unpack(old))
  end
end

local job = call('hmget', job_key(jid), 'worker', 'state', 'priority', 'retries', 'queue', 'time', 'history', 'grace')
local owner, state, priority, retries, current = job[1], job[2], job[3], job[4], job[5]
must_own('Complete', jid, owner, state, worker)
if queue ~= current then
  reject('Complete', 'Job is running in another queue: ' .. tostring(current))
end

local config = call('hmget', prefix .. 'config', 'jobs-history', 'jobs-history-count', 'max-job-history')
local cap = history_cap(config[3])
adopt_history(jid, job[7])
record(jid, entry(now, 'done'), cap)
if call('zrem', queue_key(queue, 'locks'), jid) == 0 then
  leave_queue(queue, jid)
end
call('zrem', worker_key(worker), jid)
observe('run', queue, {now - (tonumber(job[6]) or now)})
if job[8] then
  call('hdel', job_key(jid), 'grace')
end
publish_tracked('completed', jid)

-- Writes what every outcome changes.
local function settle(new_state, new_queue)
  call('hset', job_key(jid), 'state', new_state, 'queue', new_queue, 'data', data, 'time', stamp,
    'worker', '', 'failure', '{}', 'expires', '0', 'remaining', retries)
end

if next_queue then
  publish('log', cjson.encode({jid = jid, event = 'advanced', queue = queue, to = next_queue}))
  record(jid, entry(now, 'put', cjson.encode({q = next_queue})), cap)
  know_queue(next_queue)
  if depend_on(jid, depends, 1) > 0 then
    settle('depends', next_queue)
    call('zadd', queue_key(next_queue, 'depends'), stamp, jid)
    if delay > 0 then
      call('hset', job_key(jid), 'scheduled', exact(now + delay))
    end
    return 'depends'
  elseif delay > 0 and #depends == 0 then
    settle('scheduled', next_queue)
    call('zadd', queue_key(next_queue, 'scheduled'), exact(now + delay), jid)
    return 'scheduled'
  end
  settle('waiting', next_queue)
  add_work(next_queue, now, priority, jid)
  return 'waiting'
end

publish('log', '{"jid":' .. cjson.encode(jid) .. ',"event":"completed","queue":' .. cjson.encode(queue) .. '}')
settle('complete', '')
call('zadd', prefix .. 'completed', stamp, jid)
prune(tonumber(config[1] or 604800) or 604800, tonumber(config[2] or 50000) or 50000)
release_dependents(jid)
return 'complete'
