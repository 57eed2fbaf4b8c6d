-- queues: how many jobs a queue has, by state. Moves due jobs into work.
--
-- KEYS[1]  the namespace prefix
-- ARGV     NOW, [queue]
-- Returns  JSON of one queue, or of all in the order in which they were first seen:
--          {name, waiting, stalled, running, scheduled, depends, recurring, paused}
-- Errors   none
-- Cost     9 commands a queue, 3 for each due job
-- Repeat   safe
-- Needs    del exists hdel hget hmget hset lindex lpush ltrim publish rpush sismember time zadd
--          zcard
--          zcount zincrby zrange zrangebyscore zrem zrevrangebyscore zscore

-- @include "lib/base.lua"
-- @include "lib/clock.lua"
-- @include "lib/due.lua"
-- @include "lib/json.lua"
-- @include "lib/work.lua"

local function size(queue, part)
  return finite(try('zcard', queue_key(queue, part)), 0)
end

local function counts(queue)
  if is_due(queue, 'scheduled') then
    bring_due(queue, false, true, MAX_MOVED)
  end
  local stalled = finite(try('zcount', queue_key(queue, 'locks'), 0, stamp), 0)
  return cjson.encode({
    name = queue,
    waiting = size(queue, 'work'),
    stalled = stalled,
    running = size(queue, 'locks') - stalled,
    scheduled = size(queue, 'scheduled'),
    depends = size(queue, 'depends'),
    recurring = size(queue, 'recur'),
    paused = try('sismember', prefix .. 'paused_queues', queue) == 1,
  })
end

if ARGV[2] then
  return counts(ARGV[2])
end
local all = call('zrange', prefix .. 'queues', 0, -1)
for _, queue in ipairs(try('zrange', prefix .. 'x:queues', 0, -1)) do
  all[#all + 1] = queue
end
for i = 1, #all do
  all[i] = counts(all[i])
end
return joined(all)
