-- The price list of a script. A line "-- price: NAME" begins an entry; its lines up to
-- "-- loop" run once, and those after it in a loop, in which i counts up. The loop of the entry
-- "nothing" is taken off all others.

-- price: nothing
-- loop

-- price: exists, absent
-- loop
call('exists', 'p:absent')

-- price: get
call('set', 'p:text', 'value')
-- loop
call('get', 'p:text')

-- price: sismember
call('sadd', 'p:set', 'a', 'b', 'c')
-- loop
call('sismember', 'p:set', 'b')

-- price: zcard
call('zadd', 'p:zset', 1, 'a')
-- loop
call('zcard', 'p:zset')

-- price: time
-- loop
call('time')

-- price: publish, nobody listens
-- loop
call('publish', 'p:channel', 'message')

-- price: rpush, list exists
call('rpush', 'p:list', '[1700000000,"put"]')
-- loop
call('rpush', 'p:list', '[1700000000,"popped"]')

-- price: rpush of a new list, and del
-- loop
call('rpush', 'p:list', '[1700000000,"put"]')
call('del', 'p:list')

-- price: hget of the first field
job('p:job')
-- loop
call('hget', 'p:job', 'jid')

-- price: hmget of 1, absent
job('p:job')
-- loop
call('hmget', 'p:job', 'absent')

-- price: hmget of the first 3
job('p:job')
-- loop
call('hmget', 'p:job', 'jid', 'klass', 'data')

-- price: hmget of the last 3
job('p:job')
-- loop
call('hmget', 'p:job', 'retries', 'remaining', 'time')

-- price: hmget of the first 6
job('p:job')
-- loop
call('hmget', 'p:job', 'jid', 'klass', 'data', 'priority', 'tags', 'state')

-- price: hmget of 6 spread
job('p:job')
-- loop
call('hmget', 'p:job', 'jid', 'data', 'tags', 'worker', 'queue', 'remaining')

-- price: hmget of 12
job('p:job')
-- loop
call('hmget', 'p:job', 'jid', 'klass', 'data', 'priority', 'tags', 'state', 'worker', 'expires',
  'queue', 'retries', 'remaining', 'time')

-- price: hgetall of 12
job('p:job')
-- loop
call('hgetall', 'p:job')

-- price: hgetall of 12, 10 KB of data
job('p:job', string.rep('x', 10000))
-- loop
call('hgetall', 'p:job')

-- price: hset of the first 5
job('p:job')
-- loop
call('hset', 'p:job', 'jid', 'a', 'klass', 'b', 'data', 'c', 'priority', '0', 'tags', '[]')

-- price: hset of the last 5
job('p:job')
-- loop
call('hset', 'p:job', 'expires', '1', 'queue', 'q', 'retries', '5', 'remaining', '5', 'time', '1')

-- price: hset of 5, 2 as text
job('p:job')
-- loop
call('hset', 'p:job', 'state', 'running', 'worker', 'w', 'expires', '1700000060.123456',
  'queue', 'q', 'time', '1700000000.123456')

-- price: the same as numbers
job('p:job')
-- loop
call('hset', 'p:job', 'state', 'running', 'worker', 'w', 'expires', 1700000060.123456,
  'queue', 'q', 'time', 1700000000.123456)

-- price: hset of 12, new, and del
-- loop
job('p:job')
call('del', 'p:job')

-- price: the same, 100 bytes of data
local text = string.rep('x', 100)
-- loop
job('p:job', text)
call('del', 'p:job')

-- price: zadd and zrem, 4000 members
fill('p:zset', 4000)
-- loop
call('zadd', 'p:zset', '1700002000.654321', 'member')
call('zrem', 'p:zset', 'member')

-- price: zadd and zrem, listpack of 16
fill('p:zset', 16)
-- loop
call('zadd', 'p:zset', '1700000008.654321', 'member')
call('zrem', 'p:zset', 'member')

-- price: zadd and zrem, listpack of 100
fill('p:zset', 100)
-- loop
call('zadd', 'p:zset', '1700000050.654321', 'member')
call('zrem', 'p:zset', 'member')

-- price: zadd, fraction as text
fill('p:zset', 4000)
call('zadd', 'p:zset', '1700002000.654321', 'member')
-- loop
call('zadd', 'p:zset', '1700002000.123456', 'member')

-- price: zadd, fraction as a number
fill('p:zset', 4000)
call('zadd', 'p:zset', '1700002000.654321', 'member')
-- loop
call('zadd', 'p:zset', 1700002000.123456, 'member')

-- price: zmscore of 1
fill('p:zset', 4000)
-- loop
call('zmscore', 'p:zset', 'member number 1')

-- price: zpopmax of 16
fill('p:zset', 16 * loops)
-- loop
call('zpopmax', 'p:zset', 16)

-- price: zrevrange of 16, and zrem
fill('p:zset', 16 * loops)
-- loop
call('zrem', 'p:zset', unpack(call('zrevrange', 'p:zset', 0, 15)))

-- price: zrevrange of 16, and zremrangebyrank
fill('p:zset', 16 * loops)
-- loop
call('zrevrange', 'p:zset', 0, 15)
call('zremrangebyrank', 'p:zset', -16, -1)

-- price: cjson.encode of a small table
local small = {jid = 'a', event = 'put', queue = 'q'}
-- loop
cjson.encode(small)

-- price: cjson.decode of 100 bytes
local text = '{"text":"' .. string.rep('x', 89) .. '"}'
-- loop
cjson.decode(text)

-- price: tostring of a fraction
-- loop
local text = tostring(1700000000.123456)

-- price: %.17g of a fraction
-- loop
local text = string.format('%.17g', 1700000000.123456)

-- price: %.20f of a fraction
-- loop
local text = string.format('%.20f', 1700000000.123456)

-- price: tonumber of a fraction
-- loop
local number = tonumber('1700000000.123456')

-- price: string.match of a history entry
-- loop
local at, what = string.match('[1700000000,"popped",{"worker":"w"}]', '^%[(%d+),"(%a+)"')

-- price: .. of two strings
local names = {}
for j = 1, loops do names[j] = string.format('name %d', j) end
-- loop
local text = 'ql:j:' .. names[i]

-- price: .. of a string and a number
-- loop
local text = 'ql:j:' .. i

-- price: a table with a field
local text = 'a2f5c'
-- loop
local made = {jid = text}

-- price: eight pushes onto a new table
-- loop
local made = {}
for j = 1, 8 do
  made[#made + 1] = j
end

-- price: a closure
-- loop
local made = function() return i end

-- price: a call of a local function
-- loop
same(i)

-- price: the commands of a bulk job, 100 a call
local key, data, message = {}, string.rep('x', 100), '{"jid":"a2f5c","event":"put","queue":"bench"}'
for j = 1, loops do key[j] = string.format('j:%032d', j) end
local first, scored, jids = 1, {}, {}
for _, set in ipairs({'work', 'locks', 'worker', 'completed'}) do fill(set, 200) end
-- loop
call('rpush', key[i], '[1700000000,"put",{"q":"bench"}]')
job(key[i] .. '-hash', data)
call('publish', 'log', message)
local n = i - first + 1
scored[2 * n - 1], scored[2 * n], jids[n] = '1700000000.123456', key[i], key[i]
if n == 100 then
  call('exists', unpack(jids))
  call('zadd', 'work', unpack(scored))
  call('zrevrange', 'work', '0', '99')
  call('zremrangebyrank', 'work', '-100', '-1')
  for j = 1, 100 do
    local hash = jids[j] .. '-hash'
    call('hmget', hash, 'klass', 'queue', 'priority', 'retries', 'remaining', 'data', 'tags',
      'time')
    call('rpush', jids[j], '[1700000000,"popped",{"worker":"w"}]')
    call('hset', hash, 'state', 'running', 'worker', 'w', 'expires', '1700000060.123456', 'time',
      '1700000000.123456')
  end
  call('zadd', 'locks', unpack(scored))
  call('zadd', 'worker', unpack(scored))
  for j = 1, 100 do
    call('hmget', jids[j] .. '-hash', 'worker', 'state', 'retries', 'queue', 'time', 'grace')
  end
  call('exists', unpack(jids))
  call('zrem', 'locks', unpack(jids))
  call('zrem', 'worker', unpack(jids))
  for j = 1, 100 do
    call('rpush', jids[j], '[1700000000,"done"]')
    call('hset', jids[j] .. '-hash', 'state', 'complete', 'queue', '', 'time', '1700000000.123456',
      'worker', '', 'failure', '{}', 'expires', '0', 'remaining', '5')
    call('publish', 'log', message)
  end
  call('zadd', 'completed', unpack(scored))
  first = i + 1
end

-- price: the commands of put, pop(1) and complete
local data, message = string.rep('x', 100), '{"jid":"a2f5c","event":"put","queue":"bench"}'
local function observe(key)
  call('hmget', key, 'total', 'mean', 'vk', 's0')
  call('hset', key, 'total', '1', 'mean', '0.123456', 'vk', '0.123456', 's0', '1')
end
fill('work', 200)
fill('locks', 200)
fill('worker', 200)
-- loop
local jid, stamp = string.format('j:%032d', i), '1700000000.123456'
local hash, list = jid .. '-hash', jid .. '-history'
call('exists', hash, 'idle', 'tracked', 'empty')
call('zadd', 'work', '-0.1700000000123456', jid)
call('rpush', list, '[1700000000,"put",{"q":"bench"}]')
job(hash, data)
call('publish', 'log', message)
call('zadd', 'queues', 'NX', stamp, 'bench')
call('hmget', 'config', 'bench-heartbeat', 'heartbeat', 'bench-max-concurrency', 'max-job-history')
call('sismember', 'paused', 'bench')
call('zcount', 'locks', '-inf', '1600000000.123456')
call('exists', 'tracked', 'recur', 'scheduled')
call('zrevrange', 'work', '0', '0')
call('zremrangebyrank', 'work', '-1', '-1')
call('hmget', hash, 'klass', 'queue', 'priority', 'retries', 'remaining', 'data', 'tags', 'time')
call('rpush', list, '[1700000000,"popped",{"worker":"w"}]')
call('hset', hash, 'state', 'running', 'worker', 'w', 'expires', '1700000060.123456', 'time', stamp)
call('zadd', 'locks', '1700000060.123456', jid)
call('zadd', 'worker', '1700000060.123456', jid)
observe('wait')
call('exists', 'dependencies', 'dependents')
call('lrange', list, '0', '-1')
call('zadd', 'workers', stamp, 'w')
call('hmget', hash, 'worker', 'state', 'retries', 'queue', 'time', 'grace')
call('hmget', 'config', 'jobs-history', 'jobs-history-count', 'max-job-history',
  'bench-max-concurrency')
call('exists', 'tracked', 'dependents')
call('zrem', 'locks', jid)
call('zrem', 'worker', jid)
observe('run')
call('rpush', list, '[1700000000,"done"]')
call('hset', hash, 'state', 'complete', 'queue', '', 'time', stamp, 'worker', '', 'failure', '{}',
  'expires', '0', 'remaining', '5')
call('zadd', 'completed', stamp, jid)
call('zcard', 'completed')
call('zcount', 'completed', '0', '1600000000.123456')
call('publish', 'log', message)
