-- priority: changes a job's priority, and its place when it waits.
--
-- KEYS[1]  the namespace prefix
-- ARGV     NOW, jid, n
-- Returns  n
-- Errors   Priority() when there is no such job
-- Cost     4 commands
-- Repeat   safe
-- Needs    hdel hmget hset zadd

-- @include "lib/base.lua"
-- @include "lib/check.lua"
-- @include "lib/priority.lua"

local jid = required('Job', 'jid', ARGV[2])
local priority = number('Priority', 'priority', ARGV[3])
local job = call('hmget', job_key(jid), 'queue', 'state')
local queue, state = job[1], job[2]
if not queue then
  reject('Priority', 'Job ' .. jid .. ' does not exist')
end
set_priority(call, jid, queue, state, priority)
return priority
