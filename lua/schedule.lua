-- schedule: puts the job of a schedule that was due at a time, unless another client has done so.
--
-- KEYS[1]  the namespace prefix
-- ARGV     NOW, id, due, then the arguments of put: worker, queue, jid, klass, data, delay, pairs
-- Returns  what put returns, nil when the schedule has already passed that time, or 0 when it is not due
--          yet
-- Errors   Schedule(), and those of put
-- Cost     2 commands more than put
-- Repeat   once
-- Needs    del exists expire get hdel hexists hget hincrby hmget hset lindex llen lpush lrange lrem
--          ltrim publish rpush sadd scard set smembers srem time zadd zcard zincrby zmscore zpopmax
--          zpopmin zrangebyscore zrank zrem zrevrangebyscore zscore
--
-- The hash x:schedules has, by id, when each schedule was last due.

-- @include "lib/base.lua"
-- @include "lib/check.lua"
-- @include "lib/clock.lua"
-- @include "lib/put.lua"

local id = required('Schedule', 'id', ARGV[2])
local due = number('Schedule', 'due', ARGV[3])
if due > now then
  return 0
end
local last = finite(call('hget', prefix .. 'x:schedules', id))
-- As in schedule.last, a time much later than now is ignored.
if last and last >= due and last <= now + 60 then
  return nil
end
local reply = put_from_arguments(4)
call('hset', prefix .. 'x:schedules', id, exact(due))
return reply
