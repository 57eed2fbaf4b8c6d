-- unfail: moves jobs of a failure group, the oldest failures first, into a queue.
--
-- KEYS[1]  the namespace prefix
-- ARGV     NOW, queue, group [, count (25)]
-- Returns  how many were moved
-- Errors   Unfail()
-- Cost     4 commands, 6 a job

-- @include "lib/clock.lua"
-- @include "lib/check.lua"
-- @include "lib/json.lua"
-- @include "lib/stats.lua"
-- @include "lib/history.lua"
-- @include "lib/work.lua"
-- @include "lib/failures.lua"
-- @include "lib/wake.lua"

local queue = required('Queue', 'queue', ARGV[2])
local group = required('Unfail', 'group', ARGV[3])
local count = whole('Unfail', 'count', ARGV[4] or 25)
if count == 0 then
  return 0
end

local key = prefix .. 'f:' .. group
local jids = call('lrange', key, -count, -1)
for _, jid in ipairs(jids) do
  local job = call('hmget', job_key(jid), 'queue', 'priority', 'retries', 'failure', 'history')
  local old_queue, priority, retries, failure = job[1], job[2], job[3], job[4]
  if old_queue then
    adopt_history(jid, job[5])
    record(job_key(jid), entry(now, 'put', cjson.encode({q = queue})))
    uncount_failure(old_queue, list_of(failure))
    call('hset', job_key(jid), 'state', 'waiting', 'worker', '', 'expires', '0',
      'queue', queue, 'remaining', retries or 5)
    add_work(queue, now, priority, jid)
  end
end
call('ltrim', key, 0, -count - 1)
drop_empty_group(group)
if #jids > 0 then
  wake(queue)
end
return #jids
