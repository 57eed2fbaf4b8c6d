-- unfail.group: moves jobs of a failure group, the oldest failures first, each into its own queue.
--
-- KEYS[1]  the namespace prefix
-- ARGV     NOW, group, count
-- Returns  how many were moved
-- Errors   Unfail.group()
-- Cost     4 commands, 4 a queue, 6 a job
-- Repeat   once
-- Needs    exists expire get hdel hget hincrby hmget hset lindex lpush lrange ltrim publish rpush
--          sadd set srem time zadd zcard zpopmax zpopmin zrem zscore

-- @include "lib/check.lua"
-- @include "lib/unfail.lua"

local group = named('Unfail.group', 'group', ARGV[2])
return unfail_group(group, whole('Unfail.group', 'count', ARGV[3]))
