-- peek: the jobs that a pop would return, without locking them. Moves due jobs into work.
--
-- KEYS[1]  the namespace prefix
-- ARGV     NOW, queue, count [, 'beside']
-- Returns  a JSON array of at most count jobs, without those whose lives have ended, of which it passes
--          over about 1000; with beside and large data an array, as multiget with x:due,
--          and so are dependents
-- Errors   Queue(), Peek()
-- Cost     4 commands, 4 for each job
-- Repeat   safe
-- Needs    del exists hdel hget hmget hset lindex lpush lrange ltrim publish rpush scard smembers
--          time zadd zcard zcount zincrby zrangebyscore zrem zrevrange zrevrangebyscore zscore

-- @include "lib/base.lua"
-- @include "lib/beside.lua"
-- @include "lib/check.lua"
-- @include "lib/clock.lua"
-- @include "lib/due.lua"
-- @include "lib/events.lua"
-- @include "lib/jobs.lua"
-- @include "lib/json.lua"
-- @include "lib/lifetimes.lua"
-- @include "lib/work.lua"

local queue = required('Queue', 'queue', ARGV[2])
local count = whole('Peek', 'count', ARGV[3])

local beside = ARGV[4] == 'beside'
relations.room = beside and MAX_RELATED

-- The jobs, and the jids of those for which there is no room.
local out, rest = {}, {}

-- The maximum number of jobs whose lives have ended that are passed over.
local MAX_PASSED = 1000

local passed = 0

-- Appends the jobs to out, and removes those that are gone from the key. Returns how many remain.
local function show(key, jids)
  local dropped = 0
  for _, jid in ipairs(jids) do
    local job = large.bytes < MAX_LARGE and read_job(try, jid) or none
    if job == none then
      rest[#rest + 1] = jid
    elseif job[JID] and job[OPTIONS] and is_over(jid, job[OPTIONS], 'waiting') then
      passed = passed + 1
    elseif job[JID] then
      out[#out + 1] = job_json(job, is_tracked(jid), beside and set_beside(job))
    elseif may_write(key) then
      dropped = dropped + call('zrem', key, jid)
    end
  end
  return #jids - dropped
end

local locks, work = queue_key(queue, 'locks'), queue_key(queue, 'work')
local lost = call('zrangebyscore', locks, '-inf', stamp, 'LIMIT', 0, count)
local recur, scheduled = is_due(queue, 'recur'), is_due(queue, 'scheduled')
call('zcard', work)
show(locks, lost)
if recur or scheduled then
  bring_due(queue, recur, scheduled, count - #out)
end
local shown = 0
while #out + #rest < count and passed < MAX_PASSED do
  local jids = call('zrevrange', work, shown, shown + count - #out - #rest - 1)
  if #jids == 0 then
    break
  end
  shown = shown + show(work, jids)
end
return with_large(joined(out), #rest > 0 and array(rest) or '')
