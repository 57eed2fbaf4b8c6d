-- cancel.failed: deletes the jobs of a failure group, the oldest failures first. Jobs on which others
-- depend are left. What is in the group by mistake leaves it.
--
-- KEYS[1]  the namespace prefix
-- ARGV     COMMAND, NOW, group, skip, count (at most 500): how many of the oldest to pass over, and
--          how many to look at then
-- Returns  JSON {count, left: [[jid, code, why], ...], looked, skip, total}: how many were deleted,
--          which were not, how many were looked at, how many of the oldest are still there, and how
--          many there were
-- Errors   Cancel.failed()
-- Cost     2 commands, 16 a job
-- For      Go
-- Repeat   once
-- Needs    del exists expire get hdel hexists hget hincrby hmget hset lindex llen lpush lrange lrem
--          ltrim publish rpush sadd scard set sismember smembers srandmember srem sscan time unlink
--          zadd zcard zincrby zpopmax zpopmin zrange zrangebyscore zrem zrevrange zrevrangebyscore
--          zscore

local area = 'Cancel.failed'
local group = named(area, 'group', ARGV[3])
local skip, count = whole(area, 'skip', ARGV[4]), whole(area, 'count', ARGV[5])
if count < 1 or count > 500 then
  reject(area, 'Arg "count" is not from 1 to 500: ' .. ARGV[5])
end
local key = prefix .. 'f:' .. group
local total = call('llen', key)
local found, failed, strays = call('lrange', key, -skip - count, -skip - 1), {}, {}
for i = #found, 1, -1 do
  local job = try('hmget', job_key(found[i]), 'state', 'failure')
  if job[1] == 'failed' and list_of(job[2]).group == group then
    failed[#failed + 1] = found[i]
  elseif job.err then
    leave_out(found[i], 'server', job.err)
  else
    strays[#strays + 1] = found[i]
    leave_out(found[i], job[1] and 'not_failed' or 'not_found', 'it has not failed in ' .. group)
  end
end
local canceled = cancel_each(failed, -1)
for i = 1, #strays do
  leave_group(strays[i], {group = group}, -1)
end
return report(canceled, ',"looked":' .. #found .. ',"skip":' .. skip + #found - #strays - canceled ..
  ',"total":' .. total)
