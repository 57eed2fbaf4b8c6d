-- Waking idle workers: one for each job that becomes ready, whichever client put the job.
--
-- A worker that received fewer jobs than wanted is in the set x:idle, and in x:idle:<queue> for
-- each of its queues, longest idle first. With many queues, it is in x:list:<list> instead, and one
-- entry in x:idle:<queue> stands for all workers with the same list of queues. It listens on
-- x:wake:<worker>. A command that makes a job ready wakes one of these workers. Passed over are
-- workers that left x:idle, because they are busy again, or do not listen, because they are gone.

-- The maximum number of workers to pass over at either end, busy or not listening: first from the
-- longest idle, where killed workers accumulate, then from the latest.
local PASSED = 100

-- The number of workers passed over by this call.
local unheard = 0

-- The maximum number of queues of a worker with its own entries in x:idle:<queue>.
local FEW_QUEUES = 16

-- The first byte of an entry for the workers with a list of queues.
local LIST = 1

local function idle_key()
  return prefix .. 'x:idle'
end

-- Returns the key of the workers waiting for a queue's jobs, by the times at which entries lapse.
local function waiting_key(queue)
  return prefix .. 'x:idle:' .. queue
end

-- The name of a list of queues is the digest of its text.
local function waiters_key(name)
  return prefix .. 'x:list:' .. name
end

-- Returns the key of a list's hash. If it exists, the list has an entry in x:idle:<queue> for each
-- of its queues not in the hash, which also has the time at which these entries lapse.
local function listed_key(name)
  return prefix .. 'x:listed:' .. name
end

-- Wakes a worker of a queue. Reports whether one was woken.
local function wake(queue) -- cold
  local waiting, list, lapses = waiting_key(queue), nil, nil
  local woken = false
  for i = 1, 2 * PASSED do
    local from = list and waiters_key(list) or waiting
    local popped = i <= PASSED and try('zpopmin', from) or try('zpopmax', from)
    local name = popped[1]
    if name and string.byte(name) == LIST then
      list, lapses = string.sub(name, 2), popped[2]
    elseif name then
      local idle = try('srem', idle_key(), name) == 1
      woken = idle and finite(publish('x:wake:' .. name, queue), 0) > 0
      if woken then
        break
      end
      unheard = unheard + 1
    elseif list then
      if try('exists', listed_key(list)) == 1 then
        try('hset', listed_key(list), queue, '1') -- none of the list's workers is idle
      end
      list = nil
    else
      break
    end
  end
  if list then
    try('zadd', waiting, lapses, '\1' .. list) -- the list may have other idle workers
  end
  return woken
end

-- Like wake, for one job, with fewer commands: a woken worker's entry is removed when next found.
local function wake_first(queue)
  local name = try('zrange', waiting_key(queue), '0', '0')[1]
  if not name then
    return
  end
  local woken = string.byte(name) ~= LIST and try('srem', idle_key(), name) == 1
    and publish('x:wake:' .. name, queue)
  if woken == 0 or type(woken) ~= 'number' then
    wake(queue)
  end
end

-- Like wake, for a job with a delay: wakes a worker to wait for a job due within an hour.
local function wake_for(queue, delay) -- cold
  return delay < 3600 and wake(queue)
end

-- The number of jobs per woken worker, and the maximum number of workers to wake at once: each
-- wakes another one for the jobs it leaves.
local SHARE = 10
local MOST_WOKEN = 16

-- Like wake_for, for jobs arriving at once, each with a delay.
local function wake_several(queue, jobs) -- cold
  local delay = math.huge
  for i = 1, #jobs do
    delay = math.min(delay, jobs[i].delay)
  end
  for _ = 1, math.min(MOST_WOKEN, math.ceil(#jobs / SHARE)) do
    if not wake_for(queue, delay) then
      return
    end
  end
end

-- Must be called when a job has stopped running: a queue with a max-concurrency may run another.
local function wake_for_slot(queue)
  if try('hexists', prefix .. 'config', queue .. '-max-concurrency') == 1 then
    wake(queue)
  end
end

-- Must be called when a setting has changed. A queue with a new limit may run more jobs.
local function wake_for_limit(option)
  local queue = string.match(option, '^(.+)%-max%-concurrency$')
    or string.match(option, '^(.+)%-max%-rate$')
  if queue then
    wake(queue)
  end
end

local function due_key(queue)
  return prefix .. 'x:due:' .. queue
end

-- Reports whether another idle worker waits for a job due in a queue at a time.
local function is_claimed(queue, due, worker)
  local held = try('get', due_key(queue))
  if type(held) ~= 'string' then
    return false
  end
  local until_then, holder = string.match(held, '^(%S+) (.*)$')
  local at = tonumber(until_then)
  return at and holder ~= worker and at > now and at <= due and
    try('sismember', idle_key(), holder) == 1
end

-- Reports whether a queue has jobs for another idle worker: ready jobs, or jobs due this soon
-- without a worker waiting for them.
local function has_jobs(queue, worker, soon)
  if call('exists', queue_key(queue, 'work')) == 1 then
    return true
  end
  local soonest = now + soon
  for _, part in ipairs({'scheduled', 'recur', 'locks'}) do
    local due = tonumber(try('zrange', queue_key(queue, part), 0, 0, 'WITHSCORES')[2])
    soonest = due and math.min(due, soonest) or soonest
  end
  return soonest < now + soon and (soonest <= now or not is_claimed(queue, soonest, worker))
end

-- Returns a key that exists for a while after a relay has gone: all reserves then count the relays.
local function unrelayed_key()
  return prefix .. 'x:unrelayed'
end
