-- Jobs that fall due in a worker's queues before its next poll. One idle worker claims them.

-- Reports whether a queue has jobs that could be taken if its settings allowed it.
local function is_ready(queue) -- cold
  return call('exists', queue_key(queue, 'work')) == 1 or is_due(queue, 'scheduled')
    or is_due(queue, 'recur') or is_due(queue, 'locks')
end

-- Returns the next due time in a part of a queue, or nil. Tries a parked job due after the horizon.
local function part_falls_due(queue, part, horizon)
  local last = part == 'scheduled' and '+inf' or exact(horizon)
  local found = try('zrangebyscore', queue_key(queue, part), '(' .. stamp, last,
    'WITHSCORES', 'LIMIT', 0, 1)
  local due = tonumber(found[2])
  if due and due > horizon then
    due = try_parked(found[1], queue) and now
  end
  return due
end

-- Returns the times at which the next jobs of queues fall due, or their max-rate allows a job,
-- before the worker's next poll, soonest first.
local function coming_due(ask)
  local coming, horizon = {}, now + ask.poll
  for i = 1, #ask.queues do
    local queue = ask.queues[i]
    for _, part in ipairs(is_open(ask, i) and {'scheduled', 'recur', 'locks'} or none) do
      local due = part_falls_due(queue, part, horizon)
      if due then
        coming[#coming + 1] = {due = due, queue = queue}
      end
    end
    local settings = ask.settings[i]
    local opens = settings and settings.rate and rate_opens(settings.rate)
    if opens and opens < horizon and is_ready(queue) then
      coming[#coming + 1] = {due = opens, queue = queue}
    end
  end
  table.sort(coming, function(a, b)
    return a.due < b.due
  end)
  return coming
end

-- Claims the soonest due job that no other worker claims. Returns the time to wait, and its queue.
local function claim_soonest(ask)
  local coming = ask.quiet and none or coming_due(ask)
  for i = 1, #coming do
    local queue, due = coming[i].queue, coming[i].due
    if not is_claimed(queue, due, ask.worker) then
      local ttl = math.ceil((due - now) * 1000) + 1000
      call('set', due_key(queue), exact(due) .. ' ' .. ask.worker, 'PX', ttl)
      return math.max(due - now, 0.001), queue
    end
  end
  return ask.poll, ''
end
