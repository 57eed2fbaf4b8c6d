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

-- Gives a job its new tags: old ones that are not among them go.
local function retag(jid, old, new) -- cold
  for _, tag in ipairs(without_tags(old, new, 1)) do
    remove_tag(jid, tag)
  end
  for i = 1, #new do
    add_tag(jid, new[i])
  end
end

-- New dependencies replace the old ones.
local function replace_dependencies(jid, depends) -- cold
  local old = call('smembers', job_key(jid) .. '-dependencies')
  for _, other in ipairs(without_tags(old, depends, 1)) do
    undepend(jid, other)
  end
end

-- Takes a job that exists out of everything that its old state put it into.
local function leave(jid, job, worker) -- cold
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

-- Where a job goes: it may wait for others, or for a time. Adds it to work, pairs of score and
-- jid, when it may be popped at once. Returns its state.
local function place(queue, item, waits, work)
  local jid = item.jid
  if waits then
    call('zadd', queue_key(queue, 'depends'), stamp, jid)
    return 'depends'
  elseif item.delay > 0 then
    call('zadd', queue_key(queue, 'scheduled'), exact(now + item.delay), jid)
    return 'scheduled'
  end
  -- The jobs of one call are a microsecond apart, to be popped in their order.
  work[#work + 1] = work_score(now + #work / 2 * 0.000001, item.priority)
  work[#work + 1] = jid
  return 'waiting'
end

-- Writes one job, and text into its history. What the item does not say stays as it was.
local function put_one(worker, queue, item, text, work)
  local jid = item.jid
  local fields = call('hmget', job_key(jid), 'priority', 'tags', 'queue', 'state', 'failure',
    'retries', 'worker', 'history', 'grace')
  local exists = fields[4]
  local depends = item.depends
  local tags = item.tags or fields[2] and names_of(fields[2]) or {}
  local retries = item.retries or fields[6] or '5'
  item.priority = item.priority or fields[1] or '0'
  if exists then
    adopt_history(jid, fields[8])
    leave(jid, {queue = fields[3], state = exists, failure = fields[5], worker = fields[7], grace = fields[9]}, worker)
    if #depends > 0 then
      replace_dependencies(jid, depends)
    end
  end
  record(jid, text)
  if exists or #tags > 0 then
    retag(jid, names_of(fields[2]), tags)
  end
  local waits = #depends > 0 and depend_on(jid, depends, 1) > 0
  if exists and not waits then
    waits = call('scard', job_key(jid) .. '-dependencies') > 0
  end
  call('hset', job_key(jid),
    'jid', jid,
    'klass', item.klass,
    'data', item.data,
    'priority', item.priority,
    'tags', array(tags),
    'state', place(queue, item, waits, work),
    'worker', '',
    'expires', '0',
    'queue', queue,
    'retries', retries,
    'remaining', retries,
    'time', stamp)
  if waits and item.delay > 0 then
    call('hset', job_key(jid), 'scheduled', exact(now + item.delay))
  end
end

-- Puts jobs into a queue: {jid, klass, data, delay, depends [, priority] [, retries] [, tags]}.
local function put(worker, queue, items)
  local quoted = cjson.encode(queue)
  local text = entry(now, 'put', '{"q":' .. quoted .. '}')
  local work, jids = {}, {}
  local heard, soonest = 0, math.huge
  for i = 1, #items do
    local item = items[i]
    jids[i] = item.jid
    put_one(worker, queue, item, text, work)
    heard = publish_ready('{"jid":' .. cjson.encode(item.jid) .. ',"event":"put","queue":' .. quoted .. '}')
    soonest = math.min(soonest, item.delay)
  end
  each_slice('zadd', queue_key(queue, 'work'), work)
  know_queue(queue)
  publish_each_tracked('put', jids)
  if heard > 0 then
    wake_for(queue, soonest)
  end
end

-- An option that must be a number, nil when it is not given.
local function optional_number(name, text)
  return text and number('Put', name, text)
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
    priority = optional_number('priority', given.priority),
    retries = optional_number('retries', given.retries),
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
