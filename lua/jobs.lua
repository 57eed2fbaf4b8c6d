-- jobs: the jids of the jobs in a state.
--
-- KEYS[1]  the namespace prefix
-- ARGV     NOW, 'complete' [, offset, count [, 'total']], or
--          running, stalled, scheduled, depends, recurring or waiting,
--          queue [, offset, count [, 'total']]
--          where a count of -1 means all running, stalled or recurring ones
-- Returns  an array of jids; with 'total', JSON {total, jobs}, total being how many there are
-- Errors   Jobs()
-- Cost     1 command, with 'total' 2; scheduled: 3 for each due job besides
-- Repeat   safe
-- Needs    exists hget hmget hset lindex lpush ltrim rpush time zadd zcard zcount zincrby zrange
--          zrangebyscore zrem zrevrange

-- @include "lib/base.lua"
-- @include "lib/check.lua"
-- @include "lib/clock.lua"
-- @include "lib/due.lua"
-- @include "lib/json.lua"
-- @include "lib/work.lua"

-- Reads offset, count and whether the total is wanted, from ARGV[first] on.
local function page(first)
  return integer('Jobs', 'offset', ARGV[first] or 0), integer('Jobs', 'count', ARGV[first + 1] or 25),
    ARGV[first + 2] == 'total'
end

-- The reply for a part of a list, with the length of the whole if that is given.
local function reply(jids, total)
  if total then
    return '{"total":' .. total .. ',"jobs":' .. array(jids) .. '}'
  end
  return jids
end

local state = ARGV[2]
if not state then
  reject('Jobs', 'Arg "state" missing')
end
if state == 'complete' then
  local offset, count, total = page(3)
  local key = prefix .. 'completed'
  return reply(call('zrevrange', key, offset, offset + count - 1), total and call('zcard', key))
end

local queue = required('Jobs', 'queue', ARGV[3])
local offset, count, total = page(4)
local last = offset + count - 1
if state == 'waiting' then
  local key = queue_key(queue, 'work')
  return reply(call('zrevrange', key, offset, last), total and call('zcard', key))
elseif state == 'running' then
  local key = queue_key(queue, 'locks')
  local jids = call('zrangebyscore', key, stamp, '+inf', 'LIMIT', offset, count)
  return reply(jids, total and call('zcount', key, stamp, '+inf'))
elseif state == 'stalled' then
  local key = queue_key(queue, 'locks')
  local jids = call('zrangebyscore', key, '-inf', stamp, 'LIMIT', offset, count)
  return reply(jids, total and call('zcount', key, '-inf', stamp))
elseif state == 'scheduled' then
  if is_due(queue, 'scheduled') then
    bring_due(queue, false, true, MAX_MOVED)
  end
  local key = queue_key(queue, 'scheduled')
  return reply(call('zrange', key, offset, last), total and call('zcard', key))
elseif state == 'depends' then
  local key = queue_key(queue, 'depends')
  return reply(call('zrange', key, offset, last), total and call('zcard', key))
elseif state == 'recurring' then
  local key = queue_key(queue, 'recur')
  local jids = call('zrangebyscore', key, 0, '+inf', 'LIMIT', offset, count)
  return reply(jids, total and call('zcount', key, 0, '+inf'))
end
reject('Jobs', 'Unknown type "' .. state .. '"')
