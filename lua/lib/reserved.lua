-- Taking jobs from a queue of a worker, and the fields of each job in the reply.

-- The names of the values of a job.
local NAMES = 'jid klass queue priority retries remaining data tags put_at time heartbeat ' ..
  'failure spawned_from_jid x:o'

-- Returns the names for a reply. A space at the beginning means the worker could have more jobs,
-- with more room or when a job ends.
local function reply_names(has_more)
  return has_more and ' ' .. NAMES or NAMES
end

-- The byte between the values of a job in one text.
local BETWEEN = '\1'

-- Returns how many more jobs to take after n jobs, and how many of these to start at once.
local function still_wanted(ask, n)
  return math.max(0, ask.limit - n), math.max(0, ask.count - n)
end

-- Opens a queue to take wanted jobs, the first direct ones to start at once. Returns the lost jobs
-- to take, and the number of other jobs that may be taken.
local function open_one(ask, i, wanted, direct)
  local queue = ask.queues[i]
  if ask.first and #ask.first == 0 or ask.paused[i] == 1 or is_empty(ask, i) then
    return none, 0
  end
  local its = read_settings(queue)
  ask.settings[i] = its
  if its.max_concurrency > 0 or its.max_rate then
    ask.limit, wanted = ask.count, direct -- a prefetched job would count as running
  end
  local most = allowed(queue, its, wanted)
  if most < wanted and not ask.kept then
    ask.kept = finite(try('zcard', queue_key(queue, 'work')), 0) > most
  end
  wanted = most
  if wanted == 0 then
    return none, 0
  end
  if ask.known then
    ask.tracked = call('exists', prefix .. 'tracked', queue_key(queue, 'recur'),
      queue_key(queue, 'scheduled')) > 0
  end
  its.tracked, its.most, its.lock_time = ask.tracked, wanted, ask.lock_time
  its.heartbeat = kept_lock_time(its.heartbeat)
  local expired = ask.quiet and none or open_queue(queue, its, wanted)
  if its.handled then
    ask.handled = true
  end
  if its.left then
    ask.left = true
    if #expired > 0 then
      wanted = #expired -- the remaining lost jobs precede others
    end
  end
  if ask.known and (expired ~= none or dropped > 0) then
    ask.known.empty, ask.known.step = {}, 1 -- handling lost jobs may have filled queues
  end
  return expired, wanted - #expired
end

-- The same, but skips an unreadable queue among several.
local function open_safely(ask, i, wanted, direct)
  if not ask.known then
    return open_one(ask, i, wanted, direct)
  end
  local fine, expired, more = pcall(open_one, ask, i, wanted, direct)
  if fine then
    return expired, more
  end
  return none, 0
end

-- The size from which on data is sent beside the text: Lua walks over each byte of a text.
local LONG_DATA = 512

-- Reduces a job, locked for lasts seconds, to the fields sent to the worker, without relations and
-- history, which are expensive and seldom needed. Few jobs have the last three values. A job is
-- sent as one text, for a third of the cost of an array.
local function reserved_values(jid, job, _, _, ends, lasts)
  local klass, queue, priority, retries = job[KLASS], job[QUEUE], job[PRIORITY], job[RETRIES]
  local remaining, data, tags, time = job[REMAINING], job[DATA], job[TAGS], job[TIME]
  local stored = job[OPTIONS]
  if job.own_end then
    lasts = exact(tonumber(ends) - now)
  end
  local is_usual = klass and queue and priority and retries and remaining and data and tags and
    time and not job[FAILURE] and not job[SPAWNED_FROM_JID]
  local is_long = is_usual and #data >= LONG_DATA
  if is_long then
    data = ''
  end
  if is_usual and not string.find(jid .. klass .. queue .. priority .. retries .. remaining ..
    data .. tags .. time .. (stored or ''), BETWEEN, 1, true) then
    local text = jid .. BETWEEN .. klass .. BETWEEN .. queue .. BETWEEN .. priority .. BETWEEN ..
      retries .. BETWEEN .. remaining .. BETWEEN .. data .. BETWEEN .. tags .. BETWEEN .. time ..
      BETWEEN .. stamp .. BETWEEN .. lasts ..
      (stored and BETWEEN .. BETWEEN .. BETWEEN .. stored or '')
    return is_long and {text, job[DATA]} or text
  end
  return {
    jid, klass, queue, priority, retries, remaining, job[DATA], tags, time, stamp, lasts,
    job[FAILURE] or false, job[SPAWNED_FROM_JID] or false, stored or nil,
  }
end

-- Returns a number of seconds, usually the default, as text.
local function lasting(seconds)
  return seconds == DEFAULT_HEARTBEAT and '60' or exact(seconds)
end

-- Locks lost jobs of one queue if given, otherwise up to more jobs of its work. Jobs with limits
-- are not prefetched, beyond the first direct ones. Reports whether there may be more.
local function lock_from(ask, i, lost, more, direct, out)
  local queue, its, jids, take = ask.queues[i], ask.settings[i], lost, nil
  if not lost then
    take, jids = ask.known and try or call, ask.first
    if not jids or #jids > more then
      jids = best_of_work(take, queue, more)
    end
    ask.first = false
  end
  local count = #jids
  if count == 0 then
    return not lost and its.places and bring_more(queue, its, more)
  end
  local before = #out
  its.direct = direct
  its.worker, its.run, its.lasts = ask.owner, take, lasting(ask.lock_time or its.heartbeat)
  lock(its, jids, reserved_values, out)
  its.given = (its.given or 0) + #out - before
  ask.kept = ask.kept or its.stopped
  return not its.stopped and (count >= more or count >= SLICE or its.places or dropped > 0)
end

-- Locks the lost jobs of a queue. Returns how many other jobs can replace parked or dropped ones.
local function take_lost(ask, i, lost, out) -- cold
  local given, before = #lost, #out
  lock_from(ask, i, lost, 0, nil, out)
  return ask.left and 0 or given - (#out - before)
end

-- Takes up to wanted jobs from one queue, the first direct ones to start at once.
local function take_from(ask, i, wanted, direct, out)
  local start = #out
  local lost, more = open_safely(ask, i, wanted, direct)
  if #lost > 0 then
    more = more + take_lost(ask, i, lost, out)
  end
  while more > 0 and budget.drops > 0 do
    local before = #out
    if not lock_from(ask, i, nil, more, ask.limit > ask.count and start + direct, out) then
      break
    end
    more = more - (#out - before)
  end
end

-- Reports whether a queue that may give more has due jobs not handled yet.
local function has_more_due(ask) -- cold
  for i = 1, #ask.queues do
    local queue, its = ask.queues[i], ask.settings[i]
    if its and its.handled and (its.given or 0) < its.most
      and (is_due(queue, 'locks') or is_due(queue, 'scheduled') or is_due(queue, 'recur')) then
      return true
    end
  end
  return false
end
