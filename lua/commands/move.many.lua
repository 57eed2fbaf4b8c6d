-- move.many: puts jobs into a queue, whatever their states. Their klass and data stay.
--
-- KEYS[1]  the namespace prefix
-- ARGV     COMMAND, NOW, worker, queue, delay, n, n arguments that are the other pairs of put, at
--          most 500 jids
-- Returns  JSON {count, left: [[jid, code, why], ...], rest}: how many were put, which were not, and
--          the jids that the caller has to name again, because their failure groups are long
-- Errors   Move.many(), Queue(), Put()
-- Cost     3 commands, 13 a job
-- For      Go
-- Repeat   once
-- Needs    del exists expire get hdel hexists hget hincrby hmget hset lindex llen lpush lrange lrem
--          ltrim publish rpush sadd scard set sismember smembers srandmember srem sscan time unlink
--          zadd zcard zincrby zmscore zpopmax zpopmin zrange zrangebyscore zrank zrem zrevrange
--          zrevrangebyscore zscore

local area = 'Move.many'
local worker, queue = required(area, 'worker', ARGV[3]), named('Queue', 'queue', ARGV[4])
local delay = number(area, 'delay', ARGV[5])
local last = 6 + whole(area, 'n', ARGV[6])
local jids, rest = within_reach(read_jids(area, last + 1))
local puts = new_puts(worker)
local items = puts.items
puts.groups[1] = items
options(area, 7, last) -- which each job gets for itself
for i = 1, #jids do
  local jid = jids[i]
  local job = try('hmget', job_key(jid), 'klass', 'data')
  if not job[1] or not job[2] then
    leave_out(jid, job.err and 'server' or 'not_found', job.err or 'no such job')
  else
    local item = {
      queue = queue, jid = jid, klass = job[1], data = job[2], delay = delay, checked = '1',
      key = false, state = false,
    }
    add_given(puts, item, options(area, 7, last))
    items[#items + 1] = item
  end
end
local count = #items
local more = ',"rest":' .. array(rest)
if count == 0 then
  return report(0, more)
end
for _, refused in ipairs(put(puts) or {}) do
  leave_out(refused[2], 'exists', 'the job is ' .. refused[3])
  count = count - 1
end
return report(count, more)
