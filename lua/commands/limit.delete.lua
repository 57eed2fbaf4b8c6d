-- limit.delete: removes the definition of a limit, and its hold. Parked jobs that then have room
-- return to work.
--
-- KEYS[1]  the namespace prefix
-- ARGV     COMMAND, NOW, name
-- Returns  nil
-- Errors   Limit()
-- Cost     2 commands, and 12 for each job that goes back, at most 100
-- For      Go
-- Repeat   safe
-- Needs    exists expire get hdel hget hmget hset lrange publish sadd sismember srem time zadd
--          zcard zcount zpopmax zpopmin zrange zrangebyscore zrem zrevrange zscore

local name = check_limit_name('Limit', required('Limit', 'name', ARGV[3]))
must_publish()
call('hdel', prefix .. 'x:limits', name, name .. ' hold')
limit_freed(name)
