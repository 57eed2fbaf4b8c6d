-- Becoming idle, staying idle, and becoming busy again. A worker that receives fewer jobs than
-- wanted is in x:idle, and waits for jobs of each of its queues (lib/wake.lua) until woken or the
-- next poll. It claims the next due job (lib/coming.lua), for which only one worker then wakes.

-- The maximum number of lapsed entries to remove from a queue at once.
local LAPSED = 500

-- The maximum number of queues, and of workers waiting for these, that others_idle checks.
local MOST_LOOKED = 100

-- Returns the time at which a worker's entries lapse. A worker that has not polled by then is gone.
local function lapse(poll)
  return later(3 * math.max(poll, 10))
end

-- Returns the number of clients listening for puts by classic scripts, and whether the worker does.
local function count_listeners(worker)
  local counts = call('pubsub', 'numsub', prefix .. 'x:listen', prefix .. 'x:wake:' .. worker)
  return counts[2], counts[4] > 0
end

-- Returns the key with the next poll time of a worker that recently checked all of these queues.
local function looked_key(ask)
  if #ask.queues == 1 then
    return prefix .. 'x:looked:=' .. ask.list -- a single name may look like several
  end
  return prefix .. 'x:looked:' .. (#ask.queues > FEW_QUEUES and redis.sha1hex(ask.list) or ask.list)
end

-- Notes that an idle worker has checked all queues: others with the same ones need not, for now.
local function note_looked(ask) -- cold
  local ms = math.floor(math.min(1000, 100 * ask.poll))
  if ms > 0 then
    try('set', looked_key(ask), later(ask.poll), 'PX', string.format('%d', ms))
  end
end

-- Renews the worker's entries. Reports whether each of its queues has one.
local function renew_entries(ask)
  if #ask.queues <= FEW_QUEUES then
    for i = 1, #ask.queues do
      try('zadd', waiting_key(ask.queues[i]), lapse(ask.poll), ask.worker)
    end
    return true
  end
  local name = redis.sha1hex(ask.list)
  return type(try('zadd', waiters_key(name), lapse(ask.poll), ask.worker)) == 'number'
    and try('hlen', listed_key(name)) == 1
end

-- Tries to reply to a worker that only polls. It was not woken since it became idle, so the only
-- possible jobs are puts by classic scripts, which wake no worker. If another worker has just
-- looked at all queues, this one only has to poll before that one. Returns the time, or nil.
local function stay_idle(ask) -- cold
  local wait = finite(try('get', looked_key(ask)), 0) - now
  if wait < 0.9 * ask.poll or wait > ask.poll or try('sismember', idle_key(), ask.worker) ~= 1 then
    return nil
  end
  add_first(prefix .. 'workers', stamp, ask.owner)
  return renew_entries(ask) and wait or nil
end

-- Appends the workers waiting for a queue, themselves or by a list of queues. Returns the error.
local function append_waiting(key, others, seen) -- cold
  local waiting = try('zrange', key, 0, MOST_LOOKED + 1)
  for _, name in ipairs(waiting) do
    if not seen[name] then
      seen[name] = true
      if string.byte(name) == LIST then
        append_waiting(waiters_key(string.sub(name, 2)), others, seen)
      else
        others[#others + 1] = name
      end
    end
  end
  return waiting.err
end

-- Reports whether another worker that waits for one of the queues may be idle.
local function others_idle(ask) -- cold
  if #ask.queues > MOST_LOOKED then
    return true
  end
  local seen, others = {[ask.worker] = true}, {}
  for i = 1, #ask.queues do
    local err = append_waiting(waiting_key(ask.queues[i]), others, seen)
    if err or #others > MOST_LOOKED then
      return true
    end
  end
  if #others == 0 then
    return false
  end
  -- Most workers that were woken are no longer idle.
  local flags = try('smismember', idle_key(), unpack(others))
  for i = 1, #others do
    if flags[i] ~= 0 then
      return true
    end
  end
  return false
end

-- Wakes idle workers for the jobs that this worker leaves, now or when they fall due.
local function pass_on(ask) -- cold
  for i = 1, #ask.queues do
    if is_open(ask, i) and has_jobs(ask.queues[i], ask.worker, ask.poll) then
      wake(ask.queues[i])
    end
  end
end

-- Drops the worker's claim. Reports whether the worker still held it.
local function drop_claim(ask) -- cold
  local held = try('get', due_key(ask.claim))
  return type(held) == 'string' and string.match(held, ' (.*)$') == ask.worker
    and call('del', due_key(ask.claim)) == 1
end

-- Marks the worker, which has no free slot, as no longer idle. Returns the number of clients that
-- listen for puts by classic scripts, or 2, which is enough, if none is idle or the call is brief.
local function become_busy(ask)
  if ask.claim ~= '' then
    drop_claim(ask)
  end
  if not ask.others then
    return 2
  end
  try('srem', idle_key(), ask.worker)
  if ask.brief and ask.quiet and call('exists', queue_key(ask.queues[1], 'work')) == 0
    or call('exists', idle_key()) == 0 then
    return 2
  end
  pass_on(ask)
  return ask.brief and 2 or (count_listeners(ask.worker))
end

-- Removes some workers with lapsed entries from the waiting workers. They are no longer idle,
-- except for subscribed workers, which may wait for jobs of other queues.
local function drop_lapsed(waiting) -- cold
  local gone = try('zrangebyscore', waiting, '-inf', stamp, 'LIMIT', 0, LAPSED)
  if #gone == 0 then
    return
  end
  call('zrem', waiting, unpack(gone))
  local channels, dead = {}, {}
  for n = 1, #gone do
    channels[n] = prefix .. 'x:wake:' .. gone[n]
  end
  local counts = call('pubsub', 'numsub', unpack(channels))
  for n = 1, #gone do
    if counts[2 * n] == 0 then
      dead[#dead + 1] = gone[n]
    end
  end
  if #dead > 0 then
    try('srem', idle_key(), unpack(dead))
  end
end

-- Returns the time at which a list's entries lapse, and the queues that lack an entry.
local function read_listed(name)
  local fields = try('hgetall', listed_key(name))
  local lapses, absent = 0, {}
  for i = 1, #fields, 2 do
    if fields[i] == '' then
      lapses = finite(fields[i + 1], 0)
    else
      absent[#absent + 1] = fields[i]
    end
  end
  return lapses, absent
end

-- Must be called when a sorted set has a new worker. Redis keeps a small set as a list, in which
-- each change walks over all members, unless a member had a long name.
local function unlist(key) -- cold
  if try('zcard', key) == MANY_LOCKS then
    try('zadd', key, '0', NO_LIST)
    try('zrem', key, NO_LIST)
  end
end

-- Adds a worker, until its entry lapses, to the workers waiting for a queue or a list of queues. A
-- repeated poll has time to remove some workers that are gone.
local function wait_for(waiting, worker, lapses, again)
  if try('zadd', waiting, lapses, worker) == 1 then
    unlist(waiting)
  end
  if again then
    drop_lapsed(waiting)
  end
end

-- Adds the entry for a list of queues to the absent queues.
local function enter_list(name, lapses, absent) -- cold
  for i = 1, #absent do
    local waiting = waiting_key(absent[i])
    try('zadd', waiting, exact(lapses), '\1' .. name)
    drop_lapsed(waiting)
  end
end

-- Adds the worker to the workers with the same list of queues. The list's entries last for an hour,
-- and missing entries are added.
local function wait_in_list(ask, again) -- cold
  local name = redis.sha1hex(ask.list)
  local key, listed, short = waiters_key(name), listed_key(name), 3 * ask.poll
  wait_for(key, ask.worker, lapse(ask.poll), again)
  local lapses, absent = read_listed(name)
  if lapses < now + 1800 + short then
    lapses = now + 3600 + short
    enter_list(name, lapses, ask.queues)
    call('del', listed)
    call('hset', listed, '', exact(lapses))
    local day = string.format('%d', 86400 + 2 * short)
    call('expire', listed, day)
    try('expire', key, day)
  elseif #absent > 0 then
    enter_list(name, lapses, absent)
    call('hdel', listed, unpack(absent))
  end
end

-- Makes the worker wait for jobs. Returns the time to wait, the queue whose next due job the worker
-- waits for, and whether the worker was idle before.
local function become_idle(ask)
  local wait, claimed = claim_soonest(ask)
  if ask.claim ~= '' and ask.claim ~= claimed and drop_claim(ask) then
    wake(ask.claim) -- before this worker itself can be woken
  end
  local again = try('sadd', idle_key(), ask.worker) == 0
  if #ask.queues <= FEW_QUEUES then
    local lapses = lapse(ask.poll)
    for i = 1, #ask.queues do
      wait_for(waiting_key(ask.queues[i]), ask.worker, lapses, again)
    end
  else
    wait_in_list(ask, again)
  end
  if again and ask.polls then
    note_looked(ask)
  end
  return wait, claimed, again
end
