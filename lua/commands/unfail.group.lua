-- unfail.group: moves jobs of a failure group, the oldest failures first, each into its own queue.
--
-- KEYS[1]  the namespace prefix
-- ARGV     COMMAND, NOW, group, count (at most 500), then pairs: retries, n; ttl, seconds; report, '1'.
--          With report, entries that are in the group by mistake are removed from it
-- Returns  how many were moved; with report, JSON {count, left: [[jid, code, why], ...], looked,
--          total}: how many were moved, which were not, how many were looked at, and how many there were
-- Errors   Unfail.group()
-- Cost     4 commands, 5 a queue, 6 a job
-- For      Go
-- Repeat   once
-- Needs    exists expire get hdel hget hincrby hmget hset lindex llen lpush lrange ltrim publish
--          rpush sadd set srem time unlink zadd zcard zpopmax zpopmin zrangebyscore zrem
--          zrevrangebyscore zscore

local area = 'Unfail.group'
local group = named(area, 'group', ARGV[3])
local count = whole(area, 'count', ARGV[4])
if count < 1 or count > 500 then
  reject(area, 'Arg "count" is not from 1 to 500: ' .. ARGV[4])
end
local given = read_gift(area, 5, #ARGV)

-- The same as unfail_group, with a report.
local function unfail_some() -- cold
  local key = prefix .. 'f:' .. group
  local total = call('llen', key)
  local jids = call('lrange', key, -count, -1)
  local jobs = read_all_failed(jids)
  unfail(jobs, given)
  call('ltrim', key, 0, -count - 1)
  drop_empty_group(group)
  return report(#jobs, ',"looked":' .. #jids .. ',"total":' .. total)
end

if given.report then
  return unfail_some()
end
return unfail_group(group, count, nil, given)
