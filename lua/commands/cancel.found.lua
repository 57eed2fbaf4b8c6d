-- cancel.found: deletes jobs of one list of a queue that have a klass, a tag, or a text in their jid or
-- data. Jobs on which others depend that are not canceled with them are left.
--
-- KEYS[1]  the namespace prefix
-- ARGV     COMMAND, NOW, list, queue, cursor, count, limit, klass, tag, text in the jid, text in
--          the data
--          list: waiting, running, stalled, scheduled or depends; the others as in find, but for
--          count, at most 500
-- Returns  JSON {count, left: [[jid, code, why], ...], looked, cursor}: how many were deleted, which
--          were found and left, how many were looked at, and a cursor, which is empty at the end
-- Errors   Cancel.found(), Queue()
-- Cost     3 commands, 1 for each job that it looks at, 15 for each that it deletes
-- For      Go
-- Repeat   once
-- Needs    del exists expire get hdel hexists hget hincrby hmget hset hstrlen lindex llen lpush
--          lrange lrem ltrim publish rpush sadd scard set sismember smembers srandmember srem sscan
--          time unlink zadd zcard zcount zincrby zpopmax zpopmin zrange zrangebyscore zrank zrem
--          zrevrange zrevrangebyscore zscore

local area, kind = 'Cancel.found', ARGV[3]
if kind ~= 'waiting' and kind ~= 'running' and kind ~= 'stalled' and kind ~= 'scheduled'
  and kind ~= 'depends' then
  reject(area, 'Unknown list "' .. tostring(kind) .. '"')
end
local cursor = required(area, 'cursor', ARGV[5])
local count, limit = whole(area, 'count', ARGV[6]), whole(area, 'limit', ARGV[7])
if count < 1 or count > MAX_SHOWN then
  reject(area, 'Arg "count" is not from 1 to ' .. MAX_SHOWN .. ': ' .. ARGV[6])
end
local list = open_list(area, kind, ARGV[4])
local jids, _, looked, next_cursor = search(area, list, cursor, count, limit, read_filter(8))
return report(cancel_each(jids), ',"looked":' .. looked .. ',"cursor":' .. cjson.encode(next_cursor))
