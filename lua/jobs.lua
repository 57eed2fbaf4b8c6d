-- jobs: the jids of the jobs in a state.
--
-- KEYS[1]  the namespace prefix
-- ARGV     NOW, 'complete' [, offset, count], or
--          running, stalled, scheduled, depends, recurring or waiting, queue [, offset, count]
--          where a count of -1 means all running, stalled or recurring ones
-- Returns  an array of jids
-- Errors   Jobs()
-- Cost     1 command; scheduled: 3 for each due job besides
-- Repeat   safe
-- Needs    exists hget hmget hset lindex lpush ltrim rpush time zadd zcount zincrby zrange
--          zrangebyscore zrem zrevrange

-- @include "lib/base.lua"
-- @include "lib/check.lua"
-- @include "lib/clock.lua"
-- @include "lib/due.lua"
-- @include "lib/work.lua"

local function page(first)
  local offset = integer('Jobs', 'offset', ARGV[first] or 0)
  return offset, integer('Jobs', 'count', ARGV[first + 1] or 25)
end

local state = ARGV[2]
if not state then
  reject('Jobs', 'Arg "state" missing')
end
if state == 'complete' then
  local offset, count = page(3)
  return call('zrevrange', prefix .. 'completed', offset, offset + count - 1)
end

local queue = required('Jobs', 'queue', ARGV[3])
local offset, count = page(4)
local last = offset + count - 1
if state == 'waiting' then
  return call('zrevrange', queue_key(queue, 'work'), offset, last)
elseif state == 'running' then
  return call('zrangebyscore', queue_key(queue, 'locks'), stamp, '+inf', 'LIMIT', offset, count)
elseif state == 'stalled' then
  return call('zrangebyscore', queue_key(queue, 'locks'), '-inf', stamp, 'LIMIT', offset, count)
elseif state == 'scheduled' then
  if is_due(queue, 'scheduled') then
    bring_due(queue, false, true, MAX_MOVED)
  end
  return call('zrange', queue_key(queue, 'scheduled'), offset, last)
elseif state == 'depends' then
  return call('zrange', queue_key(queue, 'depends'), offset, last)
elseif state == 'recurring' then
  return call('zrangebyscore', queue_key(queue, 'recur'), 0, '+inf', 'LIMIT', offset, count)
end
reject('Jobs', 'Unknown type "' .. state .. '"')
