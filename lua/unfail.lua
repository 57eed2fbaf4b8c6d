-- unfail: moves jobs of a failure group, the oldest failures first, into a queue.
--
-- KEYS[1]  the namespace prefix
-- ARGV     NOW, queue, group [, count (25)]
-- Returns  how many were moved
-- Errors   Unfail()
-- Cost     4 commands, 6 a job
-- Repeat   once
-- Needs    exists expire hdel hget hincrby hmget hset lindex lpush lrange ltrim publish rpush srem
--          time zadd zpopmax zpopmin zscore

-- @include "lib/base.lua"
-- @include "lib/bulk.lua"
-- @include "lib/check.lua"
-- @include "lib/clock.lua"
-- @include "lib/failures.lua"
-- @include "lib/history.lua"
-- @include "lib/json.lua"
-- @include "lib/settings.lua"
-- @include "lib/wake.lua"
-- @include "lib/work.lua"

local queue = required('Queue', 'queue', ARGV[2])
local group = required('Unfail', 'group', ARGV[3])
local count = whole('Unfail', 'count', ARGV[4] or 25)
if count == 0 then
  return 0
end

local key = prefix .. 'f:' .. group
local jids, jobs, work = call('lrange', key, -count, -1), {}, {}
for _, jid in ipairs(jids) do
  local job = try('hmget', job_key(jid), 'queue', 'priority', 'retries', 'failure', 'history')
  if job[1] then
    job.jid = jid
    jobs[#jobs + 1] = job
    work[#work + 1] = work_score(now, job[2])
    work[#work + 1] = jid
  end
end

-- The first write is the one that may fail.
each_slice(call, 'zadd', queue_key(queue, 'work'), work)
for _, job in ipairs(jobs) do
  local job_hash = job_key(job.jid)
  adopt_history(job.jid, job[5])
  record(job_hash, entry(now, '"put"', cjson.encode({q = queue})))
  uncount_failure(job[1], list_of(job[4]))
  call('hset', job_hash, 'state', 'waiting', 'worker', '', 'expires', '0',
    'queue', queue, 'remaining', job[3] or DEFAULT_RETRIES)
end
call('ltrim', key, 0, -count - 1)
drop_empty_group(group)
if #jobs > 0 then
  know_unlisted(queue)
  wake(queue)
end
return #jids
