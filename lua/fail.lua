-- fail: ends a worker's job badly: it is kept in a failure group until it is moved or canceled.
--
-- KEYS[1]  the namespace prefix
-- ARGV     NOW, jid, worker, group, message [, data]
-- Returns  the jid
-- Errors   Fail() when the job is not this worker's or not running
-- Cost     11 commands

-- @include "lib/clock.lua"
-- @include "lib/check.lua"
-- @include "lib/json.lua"
-- @include "lib/events.lua"
-- @include "lib/history.lua"
-- @include "lib/stats.lua"
-- @include "lib/work.lua"
-- @include "lib/failures.lua"
-- @include "lib/owner.lua"

local jid = required('Job', 'jid', ARGV[2])
local worker = required('Fail', 'worker', ARGV[3])
local group = required('Fail', 'group', ARGV[4])
local message, data = ARGV[5], ARGV[6]
if not message then
  reject('Fail', 'Arg "message" missing')
end
if data then
  json('Fail', 'data', data)
end

local job = call('hmget', job_key(jid), 'queue', 'state', 'worker', 'history', 'grace')
local queue, state, owner = job[1], job[2], job[3]
must_own('Fail', jid, owner, state, worker)

adopt_history(jid, job[4])
publish('log', cjson.encode({jid = jid, event = 'failed', worker = worker, group = group, message = message}))
publish_tracked('failed', jid)
call('zrem', worker_key(worker), jid)
leave_queue(queue, jid)
record(jid, entry(now, 'failed', cjson.encode({worker = worker, group = group})))
tally_failure(queue)
local key = job_key(jid)
call('hset', key, 'state', 'failed', 'worker', '', 'expires', '',
  'failure', failure_json(group, message, math.floor(now), worker))
if data then
  call('hset', key, 'data', data)
end
if job[5] then
  call('hdel', key, 'grace')
end
add_failure(jid, group)
return jid
