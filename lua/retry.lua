-- retry: gives a worker's job back, at the price of one of its retries.
--
-- KEYS[1]  the namespace prefix
-- ARGV     NOW, jid, queue, worker [, delay [, group, message]]
-- Returns  the retries that are left; below 0 the job has failed, in the given group
--          or in failed-retries-<queue>
-- Errors   Retry() when the job is not this worker's or not running
-- Cost     7 commands

-- @include "lib/clock.lua"
-- @include "lib/check.lua"
-- @include "lib/json.lua"
-- @include "lib/history.lua"
-- @include "lib/stats.lua"
-- @include "lib/work.lua"
-- @include "lib/failures.lua"
-- @include "lib/owner.lua"

local jid = required('Job', 'jid', ARGV[2])
local queue = required('Retry', 'queue', ARGV[3])
local worker = required('Retry', 'worker', ARGV[4])
local delay = number('Retry', 'delay', ARGV[5] or 0)
local group, message = ARGV[6], ARGV[7]

local key = job_key(jid)
local job = call('hmget', key, 'queue', 'state', 'worker', 'priority', 'remaining', 'history', 'grace')
local current, priority = job[1], job[4]
must_own('Retry', jid, job[3], job[2], worker)

adopt_history(jid, job[6])
local remaining = math.floor(tonumber(job[5]) or 0) - 1
call('hset', key, 'remaining', remaining)
if job[7] then
  call('hdel', key, 'grace')
end
call('zrem', queue_key(current, 'locks'), jid)
call('zrem', worker_key(worker), jid)

local failure
if group and message then
  failure = failure_json(group, message, math.floor(now), worker)
end
if remaining < 0 then
  group = group or 'failed-retries-' .. queue
  failure = failure or failure_json(group, 'Job exhausted retries in queue "' .. current .. '"', now, '')
  fail_exhausted(jid, queue, group, failure)
  return remaining
end

local state = 'waiting'
if delay > 0 then
  state = 'scheduled'
  call('zadd', queue_key(queue, 'scheduled'), exact(now + delay), jid)
else
  add_work(queue, now, priority, jid)
end
call('hset', key, 'state', state)
if failure then
  call('hset', key, 'failure', failure)
end
return remaining
