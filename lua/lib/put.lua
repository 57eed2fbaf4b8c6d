-- put and requeue differ only in whether the job must exist.

-- @include "lib/clock.lua"
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
local function retag(jid, old, new)
  for _, tag in ipairs(without_tags(old, new, 1)) do
    remove_tag(jid, tag)
  end
  for i = 1, #new do
    add_tag(jid, new[i])
  end
end

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

local function put(worker, queue, jid, klass, data, delay, given)
  local fields = call('hmget', job_key(jid), 'priority', 'tags', 'queue', 'state', 'failure',
    'retries', 'worker', 'history', 'grace')
  local exists = fields[4]
  local priority = number('Put', 'priority', given.priority or fields[1] or 0)
  local retries = number('Put', 'retries', given.retries or fields[6] or 5)
  local tags = names('Put', 'tags', given.tags or fields[2] or '[]')
  local depends = names('Put', 'depends', given.depends or '[]')

  if exists then
    adopt_history(jid, fields[8])
    leave(jid, {queue = fields[3], state = exists, failure = fields[5], worker = fields[7], grace = fields[9]}, worker)
    if #depends > 0 then
      replace_dependencies(jid, depends)
    end
  end
  local heard = publish_ready('{"jid":' .. cjson.encode(jid) .. ',"event":"put","queue":' ..
    cjson.encode(queue) .. '}')
  record(jid, entry(now, 'put', '{"q":' .. cjson.encode(queue) .. '}'))
  if exists or #tags > 0 then
    retag(jid, list_of(fields[2] or nil), tags)
  end

  local waits = #depends > 0 and depend_on(jid, depends, 1) > 0
  if exists and not waits then
    waits = call('scard', job_key(jid) .. '-dependencies') > 0
  end
  local state = 'waiting'
  if waits then
    state = 'depends'
    call('zadd', queue_key(queue, 'depends'), stamp, jid)
  elseif delay > 0 then
    state = 'scheduled'
    call('zadd', queue_key(queue, 'scheduled'), exact(now + delay), jid)
  else
    add_work(queue, now, priority, jid)
  end
  call('hset', job_key(jid),
    'jid', jid,
    'klass', klass,
    'data', data,
    'priority', priority,
    'tags', array(tags),
    'state', state,
    'worker', '',
    'expires', '0',
    'queue', queue,
    'retries', retries,
    'remaining', retries,
    'time', stamp)
  if waits and delay > 0 then
    call('hset', job_key(jid), 'scheduled', exact(now + delay))
  end
  know_queue(queue)
  publish_tracked('put', jid)
  if heard > 0 and not waits then
    wake_for(queue, delay)
  end
  return jid
end

-- The arguments of both commands.
local function put_arguments()
  local worker, queue, jid, klass, data = ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
  required('Queue', 'queue', queue)
  required('Put', 'jid', jid)
  if not klass then
    reject('Put', 'Arg "klass" missing')
  end
  json('Put', 'data', data)
  local delay = number('Put', 'delay', ARGV[7])
  return put(worker, queue, jid, klass, data, delay, options('Put', 8))
end
