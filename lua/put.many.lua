-- put.many: puts many jobs into queues.
--
-- KEYS[1]  the namespace prefix
-- ARGV     NOW, worker, checked ('1' from a caller that has checked that all JSON is JSON, 'new' if
--          besides all jids are fresh random ones, or ''),
--          then for each job, at most 1000: queue, jid, klass, data, delay, n, and n arguments:
--          the other pairs of put
-- Returns  nil, or an array with an array for each job that is there and left as it is because of
--          the pair if: its place among the jobs from 0, its jid, its state
-- Errors   Queue(), Put(); nothing is written then
-- Cost     of new jobs: 3 commands a queue, and 3 for each, 3 more for each tag or dependency
-- Repeat   once, unless new
-- Waits    for replicas
-- Needs    exists expire hdel hexists hget hincrby hmget hset lindex lpush lrem ltrim publish rpush
--          sadd scard smembers srem time zadd zcard zincrby zmscore zpopmax zpopmin zrem

-- @include "lib/check.lua"
-- @include "lib/put.lua"

local items, groups, by_queue, seen = {}, {}, {}, {}

local function add_item(item)
  local queue = item.queue
  if seen[item.jid] then
    reject('Put', 'Job ' .. item.jid .. ' is named twice')
  end
  seen[item.jid] = true
  local group = by_queue[queue]
  if not group then
    group = {}
    by_queue[queue] = group
    groups[#groups + 1] = group
  end
  group[#group + 1] = item
  items[#items + 1] = item
end

local checked = ARGV[3] ~= '' and ARGV[3]
local at = 4
while at <= #ARGV do
  local queue = named('Queue', 'queue', ARGV[at])
  local first = at + 6
  local last = first - 1
  if ARGV[at + 5] ~= '0' then
    last = last + whole('Put', 'n', ARGV[at + 5])
  end
  add_item(read_put(queue, at + 1, first, last, checked))
  at = last + 1
end
if #items > 1000 then
  reject('Put', 'More than 1000 jobs')
end
if #items > 0 then
  local found = put(ARGV[2], groups, items)
  if found and found[1] then
    return found
  end
end
