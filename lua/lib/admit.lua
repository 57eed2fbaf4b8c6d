-- Starting or parking jobs with limits. Each call reads and writes the state of a limit only once.

-- A parked job other than the first of its limit is tried after TRIED_AFTER seconds at the latest,
-- plus one second for each TRIED_EACH_SECOND parked jobs.
local TRIED_AFTER = 60
local TRIED_EACH_SECOND = 100

-- The limits of the jobs in this call, by name and in order, and by options text; nil without any.
local met_limits, met_texts

-- Returns the limits in the options text, with their state in this call.
local function limits_named(text, most)
  met_limits, met_texts = met_limits or {}, met_texts or {}
  local found = met_texts[text]
  if found then
    return found
  end
  found = limits_of(text)
  for i = 1, #found do
    local name = found[i]
    local limit = met_limits[name]
    if not limit then
      limit = read_limit(name, most)
      met_limits[name], met_limits[#met_limits + 1] = limit, limit
    end
    found[i] = limit
  end
  met_texts[text] = found
  return found
end

-- Takes a slot for a job in each limit of the options text, and returns these limits. If one has no
-- room, takes no slot, and returns nil and that limit, with its opening time.
local function admit(jid, text, most) -- cold
  local found = limits_named(text, most)
  for i = 1, #found do
    local opens = limit_opens(found[i], jid)
    if opens then
      found[i].opens = opens
      for j = 1, i - 1 do
        found[j].look = true -- another job may have the place
      end
      return nil, found[i]
    end
  end
  for i = 1, #found do
    found[i].started, found[i].room = found[i].started + 1, found[i].room - 1
  end
  return found
end

-- Takes slots for the first count jobs, and returns their limits. Returns nil and takes none unless
-- all jobs have the same options, and each limit has room for all of them.
local function admit_alike(count, jobs, most)
  local text, found = jobs[1][OPTIONS], nil
  local alike = text ~= false
  for i = 1, count do
    alike = alike and jobs[i][OPTIONS] == text and jobs[i][KLASS]
  end
  if alike then
    found = limits_named(text, most)
  end
  for i = 1, alike and #found or 0 do
    local limit = found[i]
    if limit.hold or limit.room < count or limit.rate > 0 and not rate_allows(limit, count) then
      alike = false
    end
  end
  for i = 1, alike and #found or 0 do
    found[i].started, found[i].room = found[i].started + count, found[i].room - count
  end
  return alike and found or nil
end

-- Notes started jobs, with the locks of lock_some. common has their limits if admitted together.
local function note_all_started(jobs, n, locks, common)
  local ends, score
  for i = 1, n do
    local found = common or jobs[i].limits
    if found and ends ~= locks[2 * i + 1] then
      ends = locks[2 * i + 1]
      score = slot_end(tonumber(ends))
    end
    for at = 1, found and #found or 0 do
      local limit = found[at]
      local held, last = limit.held, #limit.held
      limit.noted = limit.noted + 1
      if limit.max > 0 then
        held[last + 1], held[last + 2] = score, locks[2 * i + 2]
      end
    end
  end
end

-- Parks a job that may not start, taken out of work, where it had job.score, or with a lost lock.
local function park(queue, jid, job, is_lost) -- cold
  if is_lost then
    try('zrem', queue_key(queue, 'locks'), jid)
    call('hset', job_key(jid), 'worker', '', 'expires', '0')
  end
  local limit = job.refused
  local wait = limit_key(limit.name, 'wait')
  limit.waiting = limit.waiting or finite(try('zcard', wait), 0)
  local due = limit.opens
  if limit.waiting > 0 then
    due = now + TRIED_AFTER + limit.waiting / TRIED_EACH_SECOND
  end
  limit.waiting = limit.waiting + 1
  call('hset', job_key(jid), 'state', 'scheduled',
    'x:parked', (job[TIME] or '') .. ' ' .. limit.name)
  call('zadd', queue_key(queue, 'scheduled'), exact(due), jid)
  try('zadd', wait, job.score, jid)
end

-- Frees the slots of a job with a lost lock.
local function drop_slots(jid, stored, most) -- cold
  for _, limit in ipairs(limits_named(stored, most)) do
    if try('zrem', limit_key(limit.name, 'held'), jid) == 1 then
      limit.room, limit.look = limit.room + 1, true
    end
  end
end

-- Writes the slots of the jobs started by this call.
local function write_slots()
  for _, limit in ipairs(met_limits or none) do
    local last = #limit.held
    for first = last > 2 * MANY_LOCKS and 1 or 3, last, 2 * SLICE do
      add_members(try, limit_key(limit.name, 'held'), limit.held, first,
        math.min(first + 2 * SLICE - 1, last))
    end
    limit.held = {'0', NO_LIST}
  end
end

-- Records the jobs started by this call, and returns parked jobs to work where there is room.
-- Reports whether other jobs wait for a slot.
local function settle_limits()
  local kept = false
  write_slots()
  for _, limit in ipairs(met_limits or none) do
    if limit.rate > 0 then
      note_starts(limit, limit.noted)
    end
    if limit.passed then
      try('hdel', prefix .. 'x:limits', limit.name .. ' hold')
    end
    if (limit.look or limit.passed or limit.waiting or limit.healed or limit.rate > 0 or
      limit.room <= 0) and try('exists', limit_key(limit.name, 'wait')) == 1 then
      return_parked(limit)
    end
    kept = kept or limit.kept
  end
  met_limits = nil
  return kept
end
