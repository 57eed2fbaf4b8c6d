-- peek: the jobs that a pop would give, without locking them. Moves due jobs into work.
--
-- KEYS[1]  the namespace prefix
-- ARGV     NOW, queue, count
-- Returns  a JSON array of at most count jobs
-- Errors   Queue(), Peek()
-- Cost     4 commands, 4 for each job

-- @include "lib/clock.lua"
-- @include "lib/check.lua"
-- @include "lib/json.lua"
-- @include "lib/bulk.lua"
-- @include "lib/events.lua"
-- @include "lib/history.lua"
-- @include "lib/jobs.lua"
-- @include "lib/work.lua"
-- @include "lib/due.lua"

local queue = required('Queue', 'queue', ARGV[2])
local count = whole('Peek', 'count', ARGV[3])

local jids = call('zrangebyscore', queue_key(queue, 'locks'), '-inf', stamp, 'LIMIT', 0, count)
local wanted = count - #jids
check_recurring(queue, wanted)
check_scheduled(queue, wanted)
if wanted > 0 then
  for _, jid in ipairs(call('zrevrange', queue_key(queue, 'work'), 0, wanted - 1)) do
    jids[#jids + 1] = jid
  end
end
return find_jobs(jids, 1)
