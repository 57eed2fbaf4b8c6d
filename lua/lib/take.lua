-- Taking jobs out of queues and locking them for a worker: what pop and reserve share.

-- @include "lib/clock.lua"
-- @include "lib/bulk.lua"
-- @include "lib/json.lua"
-- @include "lib/events.lua"
-- @include "lib/history.lua"
-- @include "lib/stats.lua"
-- @include "lib/jobs.lua"
-- @include "lib/work.lua"

-- Fields of a small hash: when many are asked for, all that it has are read instead.
local function read_fields(key, fields)
  if #fields < 20 then
    return call('hmget', key, unpack(fields))
  end
  local all, values = {}, {}
  local stored = call('hgetall', key)
  for i = 1, #stored, 2 do
    all[stored[i]] = stored[i + 1]
  end
  for i = 1, #fields do
    values[i] = all[fields[i]] or false
  end
  return values
end

-- The settings that taking needs, for some queues, by one read.
local function read_settings(queues)
  local fields = {'heartbeat', 'grace-period', 'max-job-history'}
  for i = 1, #queues do
    fields[#fields + 1] = queues[i] .. '-heartbeat'
    fields[#fields + 1] = queues[i] .. '-max-concurrency'
  end
  local values = read_fields(prefix .. 'config', fields)
  local settings = {
    grace = finite(values[2], 10),
    cap = history_cap(values[3]),
    heartbeat = {},
    max_concurrency = {},
  }
  for i = 1, #queues do
    settings.heartbeat[i] = finite(values[2 * i + 2], finite(values[1], 60))
    settings.max_concurrency[i] = finite(values[2 * i + 3], 0)
  end
  return settings
end

-- How many of the wanted jobs a queue may still run.
local function allowed(queue, max_concurrency, wanted)
  if max_concurrency <= 0 then
    return wanted
  end
  local running = call('zcount', queue_key(queue, 'locks'), stamp, '+inf')
  return math.min(wanted, math.max(0, max_concurrency - running))
end

-- Takes up to limit jids out of work, highest score first.
local function take_work(queue, limit)
  local scored = call('zpopmax', queue_key(queue, 'work'), limit)
  local jids = {}
  for i = 1, #scored, 2 do
    jids[#jids + 1] = scored[i]
  end
  return jids
end

-- Locks jids[first..last], at most a few hundred, and adds what show makes of each job to
-- out. Jobs that are gone are dropped.
local function lock_some(queue, jids, first, last, worker, heartbeat, cap, show, out)
  local expires = exact(now + heartbeat)
  local popped = entry(now, 'popped', '{"worker":' .. cjson.encode(worker) .. '}')
  local jobs, taken, waited, locks = {}, {}, {}, {}
  local n = 0
  for i = first, last do
    local jid = jids[i]
    local key = job_key(jid)
    local job = read_waiting_job(key)
    if job[1] then
      n = n + 1
      adopt_history(jid, job[12])
      record(key, popped, cap)
      call('hset', key, 'state', 'running', 'worker', worker, 'expires', expires, 'time', stamp)
      jobs[n], taken[n], waited[n] = job, jid, now - finite(job[11], now)
      locks[2 * n - 1], locks[2 * n] = expires, jid
    else
      call('zrem', queue_key(queue, 'locks'), jid)
    end
  end
  if n == 0 then
    return
  end
  observe('wait', queue, waited)
  call('zadd', queue_key(queue, 'locks'), unpack(locks))
  call('zadd', worker_key(worker), unpack(locks))
  local tracked = call('zmscore', prefix .. 'tracked', unpack(taken))
  for i = 1, n do
    if tracked[i] then
      publish('popped', taken[i])
    end
    out[#out + 1] = show(jobs[i], tracked[i] and true or false, worker, expires)
  end
end

-- Locks all of the jids.
local function lock(queue, jids, worker, heartbeat, cap, show, out)
  for first = 1, #jids, 500 do
    lock_some(queue, jids, first, math.min(first + 499, #jids), worker, heartbeat, cap, show, out)
  end
end
