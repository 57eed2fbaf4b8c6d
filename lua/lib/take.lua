-- Taking jobs out of queues: how many, and which. pop and reserve share these functions.

-- Reads the stored settings for taking jobs of a queue: its lock time, the lock time of all queues,
-- max-concurrency, the maximum length of a history, and max-rate.
local function taking_config(queue)
  return call('hmget', prefix .. 'config', queue .. '-heartbeat', 'heartbeat',
    queue .. '-max-concurrency', 'max-job-history', queue .. '-max-rate')
end

-- The same settings with their defaults.
local function read_settings(queue)
  local own, general, most, cap, max_rate = unpack(taking_config(queue))
  local lasts = lock_time(own, general)
  return {
    queue = queue, most = false, lock_time = false, worker = false, run = false, direct = false,
    lasts = false, heartbeat = lasts, cap = history_cap(cap),
    max_concurrency = finite(most, 0), max_rate = max_rate,
    tracked = true, -- some jobs may be
  }
end

-- Returns how many of the wanted jobs a queue with a max-rate may start now.
local function allowed_by_rate(queue, settings, wanted) -- cold
  local limit = read_max_rate(queue, settings.max_rate, wanted)
  if not limit then
    return wanted
  end
  settings.rate = limit
  while limit.started < wanted and not rate_opens(limit) do
    limit.started = limit.started + 1
  end
  return limit.started
end

-- Returns how many of the wanted jobs the queue may still run.
local function allowed(queue, settings, wanted)
  if settings.max_concurrency > 0 then
    local running = call('zcount', queue_key(queue, 'locks'), stamp, '+inf')
    wanted = math.min(wanted, math.max(0, settings.max_concurrency - running))
  end
  return settings.max_rate and wanted > 0 and allowed_by_rate(queue, settings, wanted) or wanted
end

-- Returns how many of the wanted lost jobs may be taken, by the size of their data.
local function lost_with_room(queue, wanted) -- cold
  local jids = call('zrangebyscore', queue_key(queue, 'locks'), '-inf', stamp, 'LIMIT', 0, wanted)
  local bytes = budget.taken
  for i = 1, #jids do
    local size = finite(try('hstrlen', job_key(jids[i]), 'data'), 0)
    bytes = bytes + size
    if bytes > budget.bytes and bytes > size then
      return i - 1
    end
  end
  return wanted
end

-- Handles up to wanted due jobs of a queue. Returns the lost jobs to take. Sets settings.left if
-- some jobs remain because of their data, and always settings.handled: other jobs may be due, too.
local function take_due(queue, settings, wanted, lost, recur, scheduled) -- cold
  -- Needs no memory, and fails if jobs could not be added later.
  call('zrem', queue_key(queue, 'work'), '')
  local room = wanted
  if lost then
    write_slots() -- this call may have started some
    room = budget.bytes and lost_with_room(queue, wanted) or wanted
  end
  local expired = lost and expire(queue, room, read_lost_settings(settings.cap)) or {}
  local missing = wanted - #expired
  local brought = missing
  if recur and budget.bytes and missing > 0 then
    brought = children_with_room(queue, missing, budget.bytes)
  end
  bring_due(queue, recur, scheduled, brought)
  settings.left = room < wanted
    or brought < missing and (is_due(queue, 'recur') or is_due(queue, 'scheduled'))
  settings.handled = true
  return expired
end

-- Prepares a queue for taking the wanted number of jobs: moves due jobs into work, and returns the
-- lost jobs, which are taken first. Everything that can fail is read before the first write.
-- settings.tracked means there may be tracked, recurring or scheduled jobs: one command checks for
-- all of these, because many queues have none.
local function open_queue(queue, settings, wanted)
  local lost, recur, scheduled = is_due(queue, 'locks'), false, false
  if settings.tracked then
    recur, scheduled = is_due(queue, 'recur'), is_due(queue, 'scheduled')
  end
  if lost or recur or scheduled then
    return take_due(queue, settings, wanted, lost, recur, scheduled)
  end
  return none
end

-- Moves more due jobs into work, in place of parked jobs. Reports whether work has any jobs.
local function bring_more(queue, settings, limit) -- cold
  settings.places = false
  if not is_due(queue, 'scheduled') then
    return false
  end
  bring_due(queue, false, true, limit)
  return call('exists', queue_key(queue, 'work')) == 1
end

-- Returns the jids of up to limit jobs of work, highest score first. Unlike ZPOPMAX, this prints no
-- scores, and keeps the scores for parking jobs without room in their limits.
local function best_of_work(run, queue, limit)
  return run('zrevrange', queue_key(queue, 'work'), '0',
    limit == 1 and '0' or string.format('%d', (limit < SLICE and limit or SLICE) - 1))
end

-- Returns the JSON of a job just taken, with the text more at its end.
local function popped_json(jid, job, tracked, worker, expires, more)
  job[FAILURE], job[SPAWNED_FROM_JID] = job[FAILURE] or false, job[SPAWNED_FROM_JID] or false
  job[HISTORY], job[JID] = false, jid
  job[STATE], job[WORKER], job[EXPIRES] = 'running', worker, expires
  local newest = '{"worker":' .. cjson.encode(worker) .. ',"when":' .. string.format('%d', now) ..
    ',"what":"popped"}'
  return job_json(job, tracked, more, newest)
end
