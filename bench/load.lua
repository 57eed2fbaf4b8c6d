-- Quickly fills a queue or the completed jobs, with everything read by any of the scripts.
--
-- ARGV  'waiting', 'scheduled' or 'completed', queue, number of the first job, count, data, time,
--       and the throttles kept in each job by current classic scripts, or ''
local call = redis.call
local kind, queue, data, stamp = ARGV[1], ARGV[2], ARGV[5], ARGV[6]
local first, count = tonumber(ARGV[3]), tonumber(ARGV[4])
local throttles = ARGV[7]
local work = 'ql:q:' .. queue .. '-work'
local complete = kind == 'completed'
local states = {waiting = 'waiting', scheduled = 'scheduled', completed = 'complete'}
local put = '[' .. string.match(stamp, '^%d+') .. ',"put",{"q":"' .. queue .. '"}]'

for i = first, first + count - 1 do
  local jid = string.format('%s%027d', string.sub(kind, 1, 5), i)
  local key = 'ql:j:' .. jid
  call('hset', key, 'jid', jid, 'klass', 'Bench', 'data', data, 'priority', 0, 'tags', '[]',
    'state', states[kind], 'worker', '', 'expires', 0,
    'queue', complete and '' or queue, 'retries', 5, 'remaining', 5, 'time', stamp)
  if throttles ~= '' then
    call('hset', key, 'throttles', throttles)
  end
  call('rpush', key .. '-history', put)
  if complete then
    call('zadd', 'ql:completed', stamp, jid)
  elseif kind == 'scheduled' then
    call('zadd', 'ql:q:' .. queue .. '-scheduled', tonumber(stamp) + 86400, jid)
  else
    call('zadd', work, string.format('%.17g', -(tonumber(stamp) + i / 1e6) / 1e10), jid)
  end
end
call('zadd', 'ql:queues', stamp, queue)
return count
