-- Putting jobs into a queue: one, or many at once. What they share is written once.

-- @include "lib/clock.lua"
-- @include "lib/bulk.lua"
-- @include "lib/check.lua"
-- @include "lib/json.lua"
-- @include "lib/events.lua"
-- @include "lib/history.lua"
-- @include "lib/tags.lua"
-- @include "lib/deps.lua"
-- @include "lib/work.lua"
-- @include "lib/failures.lua"
-- @include "lib/wake.lua"

-- New dependencies replace the old ones.
local function replace_dependencies(jid, depends)
  local old = call('smembers', job_key(jid) .. '-dependencies')
  for _, other in ipairs(without_tags(old, depends, 1)) do
    undepend(jid, other)
  end
end

-- Takes a job that exists out of everything that its old state put it into.
local function leave(jid, job, worker)
  local queue, state, failure, owner = job.queue, job.state, job.failure, job.worker
  leave_queue(queue, jid)
  if owner and owner ~= '' then
    call('zrem', worker_key(owner), jid)
    if owner ~= worker then
      lock_lost(jid, owner)
    end
    if state == 'running' then
      wake_for_slot(queue)
    end
  end
  if state == 'complete' then
    call('zrem', prefix .. 'completed', jid)
  elseif state == 'failed' then
    forget_failure(jid, queue, failure)
  end
  if job.grace then
    call('hdel', job_key(jid), 'grace')
  end
end

-- Makes a job that exists ready to be written anew: what the item does not say stays as it was.
-- Whether it waits for other jobs still.
local function move(worker, item) -- cold
  local jid = item.jid
  local fields = call('hmget', job_key(jid), 'priority', 'tags', 'queue', 'state', 'failure',
    'retries', 'worker', 'history', 'grace')
  local tags = names_of(fields[2])
  item.priority = item.priority or fields[1]
  item.tags = item.tags or tags
  item.retries = item.retries or fields[6]
  adopt_history(jid, fields[8])
  if fields[4] then
    leave(jid, {queue = fields[3], state = fields[4], failure = fields[5], worker = fields[7], grace = fields[9]}, worker)
  end
  remove_tags(jid, without_tags(tags, item.tags, 1), 1)
  if #item.depends > 0 then
    replace_dependencies(jid, item.depends)
  end
  return call('scard', job_key(jid) .. '-dependencies') > 0
end

-- Where a job goes: it may wait for others, or for a time. Adds it to work, pairs of score and
-- jid, when it may be popped at once. Returns its state.
local function place(queue, item, waits, work)
  if waits then
    call('zadd', queue_key(queue, 'depends'), stamp, item.jid)
    return 'depends'
  elseif item.delay > 0 then
    call('zadd', queue_key(queue, 'scheduled'), exact(now + item.delay), item.jid)
    return 'scheduled'
  end
  -- The jobs of one call are a microsecond apart, to be popped in their order.
  local n = #work
  work[n + 1] = work_score(now + n / 2 * 0.000001, item.priority)
  work[n + 2] = item.jid
  return 'waiting'
end

-- Writes one job, and text into its history.
local function put_one(queue, item, key, waits, text, work)
  local jid, depends = item.jid, item.depends
  local tags, retries = item.tags or none, item.retries or '5'
  local stored_tags = '[]'
  record(key, text)
  if #tags > 0 then
    add_tags(jid, tags, 1)
    stored_tags = cjson.encode(tags)
  end
  if #depends > 0 and depend_on(jid, depends, 1) > 0 then
    waits = true
  end
  call('hset', key,
    'jid', jid,
    'klass', item.klass,
    'data', item.data,
    'priority', item.priority or '0',
    'tags', stored_tags,
    'state', place(queue, item, waits, work),
    'worker', '',
    'expires', '0',
    'queue', queue,
    'retries', retries,
    'remaining', retries,
    'time', stamp)
  if waits and item.delay > 0 then
    call('hset', key, 'scheduled', exact(now + item.delay))
  end
end

-- Puts jobs into a queue: {jid, klass, data, delay, depends [, priority] [, retries] [, tags]}.
local function put(worker, queue, items)
  local quoted = cjson.encode(queue)
  local text = entry(now, 'put', '{"q":' .. quoted .. '}')
  local told = ',"event":"put","queue":' .. quoted .. '}' .. READY
  local keys, jids, work = {}, {}, {}
  local heard, soonest = 0, math.huge
  for i = 1, #items do
    jids[i] = items[i].jid
    keys[i] = job_key(jids[i])
  end
  local some_exist = any_exists(keys)
  for i = 1, #items do
    local item, key = items[i], keys[i]
    local waits = some_exist and call('exists', key) == 1 and move(worker, item)
    put_one(queue, item, key, waits, text, work)
    heard = publish('log', '{"jid":' .. cjson.encode(item.jid) .. told)
    soonest = math.min(soonest, item.delay)
  end
  each_slice('zadd', queue_key(queue, 'work'), work)
  know_queue(queue)
  publish_each_tracked('put', jids)
  if heard > 0 then
    wake_for(queue, soonest)
  end
end

-- The job whose arguments begin at ARGV[at], with pairs of options from first to last. A
-- caller that has checked the data says so by the option "checked": for the server, reading
-- it is the dearest part of putting a large job.
local function read_put(at, first, last)
  local klass, data = ARGV[at + 1], ARGV[at + 2]
  if not klass then
    reject('Put', 'Arg "klass" missing')
  end
  local given = options('Put', first, last)
  if not given.checked then
    json('Put', 'data', data)
  end
  local delay = number('Put', 'delay', ARGV[at + 3])
  return {
    jid = named('Put', 'jid', ARGV[at]),
    klass = klass,
    data = data,
    delay = delay,
    depends = names('Put', 'depends', given.depends),
    priority = given.priority and number('Put', 'priority', given.priority),
    retries = given.retries and number('Put', 'retries', given.retries),
    tags = given.tags and names('Put', 'tags', given.tags),
  }
end

-- put and requeue, whose arguments are the same.
local function put_from_arguments()
  local queue = named('Queue', 'queue', ARGV[3])
  local item = read_put(4, 8, #ARGV)
  put(ARGV[2], queue, {item})
  return item.jid
end
