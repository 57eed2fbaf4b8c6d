-- queues: how many jobs a queue has, by state. Moves due jobs into work.
--
-- KEYS[1]  the namespace prefix
-- ARGV     NOW, [queue]
-- Returns  JSON of one queue, or of all in the order in which they were first seen:
--          {name, waiting, stalled, running, scheduled, depends, recurring, paused}
-- Errors   none
-- Cost     9 commands a queue, 3 for each due job

-- @include "lib/clock.lua"
-- @include "lib/check.lua"
-- @include "lib/json.lua"
-- @include "lib/bulk.lua"
-- @include "lib/history.lua"
-- @include "lib/tags.lua"
-- @include "lib/work.lua"
-- @include "lib/due.lua"

-- Due jobs of a queue that one call moves at the most.
local MOVED = 10000

local function counts(queue)
  check_scheduled(queue, MOVED)
  local locks = queue_key(queue, 'locks')
  local stalled = call('zcount', locks, 0, stamp)
  return cjson.encode({
    name = queue,
    waiting = call('zcard', queue_key(queue, 'work')),
    stalled = stalled,
    running = call('zcard', locks) - stalled,
    scheduled = call('zcard', queue_key(queue, 'scheduled')),
    depends = call('zcard', queue_key(queue, 'depends')),
    recurring = call('zcard', queue_key(queue, 'recur')),
    paused = call('sismember', prefix .. 'paused_queues', queue) == 1,
  })
end

if ARGV[2] then
  return counts(ARGV[2])
end
local all = call('zrange', prefix .. 'queues', 0, -1)
for i = 1, #all do
  all[i] = counts(all[i])
end
return '[' .. table.concat(all, ',') .. ']'
