-- workers: the workers seen lately, with how many jobs each holds, or the jobs of one worker.
--
-- KEYS[1]  the namespace prefix
-- ARGV     NOW, [worker [, 'held']], or '', first, last [, 'registered']: the range of the list
--          that is wanted, negative ones counted from its end, '' for all
-- Returns  JSON of all, last seen first: {name, jobs, stalled} as counts, and with 'registered' the
--          text registered of those that have registered: SEEN|STARTED|JSON;
--          of one: {jobs, stalled} as jids. A job that was timed out stays among them, even if
--          another worker has it; with 'held' it does not
-- Errors   Workers()
-- Cost     2 commands, 2 for each worker, 3 with 'registered'; removes at most 1000 that were not
--          seen for max-worker-age
-- Repeat   safe
-- Needs    del get hget hmget time zcount zrangebyscore zrem zrevrange zrevrangebyscore

-- @include "lib/base.lua"
-- @include "lib/bulk.lua"
-- @include "lib/check.lua"
-- @include "lib/clock.lua"
-- @include "lib/json.lua"
-- @include "lib/registry.lua"
-- @include "lib/settings.lua"

-- Later than any lock ends: 100 days from now.
local far = exact(now + 8640000)

local function forget(old) -- cold
  if may_write(prefix .. 'workers') then
    for _, worker in ipairs(old) do
      call('del', worker_key(worker))
    end
    each_slice(call, 'zrem', prefix .. 'workers', old)
  end
end

local function forget_old()
  local age = finite(call('hget', prefix .. 'config', 'max-worker-age'), DEFAULT_MAX_WORKER_AGE)
  local old = call('zrangebyscore', prefix .. 'workers', 0, exact(now - age), 'LIMIT', 0, 1000)
  if #old > 0 then
    forget(old)
  end
end

-- The jobs that the worker still holds, if only those are wanted, else all.
local function held(worker, jids)
  if ARGV[3] ~= 'held' then
    return jids
  end
  local kept = {}
  for _, jid in ipairs(jids) do
    local job = try('hmget', job_key(jid), 'worker', 'state')
    if job[1] == worker and job[2] == 'running' then
      kept[#kept + 1] = jid
    end
  end
  return kept
end

-- What a worker has registered, unless that is too old: by the server's clock it has then expired.
local function registered(worker)
  local text = try('get', registry_key(worker))
  local seen = type(text) == 'string' and finite(string.match(text, '^[^|]*'))
  return seen and seen > now - REGISTERED and text or nil
end

-- Whether there is an argument i. Clients in PHP send empty ones in place of those they leave out.
local function given(i)
  return ARGV[i] and ARGV[i] ~= ''
end

local worker = ARGV[2]
if worker == '' then
  worker = nil
end
local first, last = 0, -1
if not worker then
  first = given(3) and integer('Workers', 'first', ARGV[3]) or first
  last = given(4) and integer('Workers', 'last', ARGV[4]) or last
end
forget_old()
if worker then
  local key = worker_key(worker)
  return '{"jobs":' .. array(held(worker, call('zrevrangebyscore', key, far, stamp))) ..
    ',"stalled":' .. array(held(worker, call('zrevrangebyscore', key, stamp, 0))) .. '}'
end
local all = call('zrevrange', prefix .. 'workers', first, last)
for i = 1, #all do
  local key = worker_key(all[i])
  all[i] = cjson.encode({
    name = all[i],
    jobs = call('zcount', key, stamp, far),
    stalled = call('zcount', key, 0, stamp),
    registered = ARGV[5] == 'registered' and registered(all[i]) or nil,
  })
end
return joined(all)
