-- unfail.jobs: moves failed jobs, each into its own queue.
--
-- KEYS[1]  the namespace prefix
-- ARGV     COMMAND, NOW, n, n arguments that are the pairs of unfail.group, then at most 500 jids
-- Returns  JSON {count, left: [[jid, code, why], ...], rest}: how many were moved, which were not, and
--          the jids that the caller has to name again, because their groups are long
-- Errors   Unfail.jobs() when none is named
-- Cost     4 commands, 4 a queue, 11 a job
-- For      Go
-- Repeat   once
-- Needs    exists expire get hdel hget hincrby hmget hset lindex llen lpush lrange lrem ltrim
--          publish rpush sadd set srem time unlink zadd zcard zpopmax zpopmin zrangebyscore zrem
--          zrevrangebyscore zscore

local last = 3 + whole('Unfail.jobs', 'n', ARGV[3])
local given = read_gift('Unfail.jobs', 4, last)
local jids, rest = within_reach(read_jids('Unfail.jobs', last + 1))
local jobs = read_all_failed(jids)
unfail(jobs, given)
for i = 1, #jobs do
  leave_group(jobs[i].jid, list_of(jobs[i].failure))
end
return report(#jobs, ',"rest":' .. array(rest))
