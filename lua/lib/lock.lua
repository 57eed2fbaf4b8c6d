-- Locking jobs for a worker: code shared by pop and reserve, after they have chosen the jobs.

-- The number of locks from which on a sorted set should not be a list.
local MANY_LOCKS = 6

-- A member too long for Redis to keep a sorted set as a list.
local NO_LIST = '-----------------------------------------------------------------'

-- The maximum number of jobs to lock together.
local SLICE = 500

-- The maximum number of jobs that a call parks, and the number parked so far.
local MAX_PARKED = 200
local parked_here = 0

-- The earliest expiry of this call's locks with a duration other than the queue's.
local first_own_end = math.huge

-- Reads and clears fields of a job that was not only put. recorded is the newest history entry.
local function read_rest(jid, key, job, recorded, cap) -- cold
  local failure, parent, history, grace = unpack(
    try('hmget', key, 'failure', 'spawned_from_jid', 'history', 'grace'))
  job[FAILURE], job[SPAWNED_FROM_JID] = failure, parent
  adopt_before(jid, history, recorded, cap)
  if grace == NO_GRACE then -- from a lock that was timed out
    call('hdel', key, 'grace')
  end
end

-- Adds scores and members to a sorted set, from the place first on. If first is 1, this adds the
-- pair of NO_LIST, and removes it again: Redis keeps a small sorted set as a list, in which every
-- change walks over all members. After a long member, a set is not a list until it is empty.
local function add_members(run, key, members, first, last)
  local added = run('zadd', key, unpack(members, first, last))
  if first == 1 and type(added) == 'number' then
    run('zrem', key, NO_LIST)
  end
end

-- Adds n locks, as scores and jids after the pair of NO_LIST, to a queue's locks and a worker's
-- jobs. One small call in sixteen, by the first jid, also prevents a list: many workers may hold
-- few locks each.
local function add_locks(queue, worker, locks, n)
  local first = n < MANY_LOCKS and (string.byte(locks[4], -1) or 1) % 16 > 0 and 3 or 1
  add_members(call, queue_key(queue, 'locks'), locks, first, 2 * n + 2)
  add_members(try, worker_key(worker), locks, first, 2 * n + 2)
end

-- Locks a job for the duration in its options, or the call's. Returns the lock expiry. Sets
-- job.own_end if the expiry may differ from others in this call.
local function lock_special(key, job, worker, settings) -- cold
  local stored, seconds, more = job[OPTIONS] or '', settings.lock_time, {}
  if seconds then
    more = {'grace', NO_GRACE}
  end
  if has_option(stored, ON_LOST) then
    add_pair(more, 'x:place', job[TIME] or stamp)
  end
  local ends = now + (seconds or own_lock_time(stored) or settings.heartbeat)
  first_own_end = math.min(first_own_end, ends)
  job.own_end = has_any(stored, LOCK_TIME .. ON_LOST)
  call('hset', key, 'state', 'running', 'worker', worker, 'expires', exact(ends), 'time', stamp,
    unpack(more))
  return exact(ends)
end

-- Decides whether a job with limits may start. Returns false if this job and all later ones must
-- stay in place, because the call may park no more. run is as in lock_some. Sets settings.places
-- when a job is parked: others may take its place.
local function may_start(jid, job, settings, run) -- cold
  local stored = job[OPTIONS]
  if not job[KLASS] or job.over then
    return true
  elseif run and parked_here >= MAX_PARKED then
    settings.stopped, budget.drops = true, 0
    return false
  elseif not run then -- the job has lost its lock, and is admitted like any other
    drop_slots(jid, stored, settings.most or 1)
  end
  job.limits, job.refused = admit(jid, stored, settings.most or 1)
  if job.refused then
    parked_here, settings.places = parked_here + 1, true
  end
  return true
end

-- Reads the scores of jobs to park, among the first count. A job with a lost lock is not in work,
-- and will be the first of its priority.
local function read_scores(queue, jids, count, jobs, settings, run) -- cold
  local refused = {}
  for i = 1, count do
    local job = jobs[i]
    if job.refused then
      job.score = settings.score or exact(finite(job[PRIORITY], 0))
      refused[#refused + 1] = i
    end
  end
  if #refused == 0 then
    return
  end
  if not settings.parks then
    settings.parks = true
    call('zcard', queue_key(queue, 'scheduled')) -- fails unless jobs can be parked
  end
  for i = 1, run and #refused or 0 do
    jobs[refused[i]].score = call('zscore', queue_key(queue, 'work'), jids[refused[i]])
  end
end

-- Removes tenants if the first count jobs, now taken, were the last to take turns.
local function leave_all_turns(queue, jobs, count) -- cold
  local left = {}
  for i = 1, count do
    local job = jobs[i]
    local priority = job[OPTIONS] and has_option(job[OPTIONS], FAIR) and (job[PRIORITY] or '0')
    if priority and not left[priority] then
      left[priority] = true
      leave_turns(queue, priority)
    end
  end
end

-- Reads the fields needed to lock a job.
local function read_waiting(key)
  return try('hmget', key, 'klass', 'queue', 'priority', 'retries', 'remaining', 'data', 'tags',
    'time', 'x:o')
end

-- Returns the history entry of a job taken by a worker.
local function popped_entry(worker)
  local details = '{"worker":' .. cjson.encode(worker) .. '}'
  return entry(now, '"popped"', details)
end

-- Marks a job as running, with a lock until a time.
local function hand_out(key, worker, expires)
  call('hset', key, 'state', 'running', 'worker', worker, 'expires', expires, 'time', stamp)
end

-- Reads the jobs with these jids and their keys, as far as the budget allows, after n jobs already
-- locked by this call. Returns their number, the set of all letters of their options, and whether
-- the next job stays in place because it has limits and would only be prefetched: others could use
-- its slots.
local function read_some(settings, jids, jobs, keys, n)
  local run, over, letters, passed = settings.run, 0, none, false
  local text, may_expire -- the previous job's options text, and its meaning
  local count = #jids
  for i = 1, #jids do
    local key = job_key(jids[i])
    local job = read_waiting(key)
    local stored, size = job[OPTIONS], #(job[DATA] or '')
    if stored and run and settings.direct and n + i > settings.direct
      and has_option(stored, LIMITED) then
      count, passed = i - 1, true
      break
    end
    jobs[i], keys[i] = job, key
    budget.taken = budget.taken + size
    if budget.bytes and budget.taken > budget.bytes and budget.taken > size and run then
      count, settings.stopped, budget.drops = i - 1, true, 0
      break
    end
    if stored then
      if stored ~= text then
        local has = letters_of(stored)
        text, may_expire = stored, has[START_BY] or has[TTL]
        if letters ~= has then
          letters = letters == none and has or all_letters({letters, has})
        end
      end
      if may_expire and is_over(jids[i], stored, 'waiting') then
        job.over, over = true, over + 1
        if run and over >= budget.drops then
          count, settings.stopped, budget.drops = i, true, 0
          break
        end
      end
    end
  end
  return count, letters, passed
end

-- Decides which of the first count jobs their limits allow to start. Returns how many do not stay
-- in place, and their limits if all were admitted together.
local function admit_some(settings, jids, jobs, count, letters) -- cold
  local run, most = settings.run, settings.most or 1
  if run and count > 0 and not letters[START_BY] and not letters[TTL] and parked_here == 0 then
    local common = admit_alike(count, jobs, most)
    if common then
      return count, common
    end
  end
  for i = 1, count do
    local stored = jobs[i][OPTIONS]
    if stored and has_option(stored, LIMITED)
      and not may_start(jids[i], jobs[i], settings, run) then
      count = i - 1
      break
    end
  end
  read_scores(settings.queue, jids, count, jobs, settings, run)
  return count, nil
end

-- Starts the first count jobs. Drops expired jobs, parks jobs without room in their limits, and
-- skips jids without a job. The lists then have only the running jobs, and in place of each key the
-- time that the job has waited. Returns the locks: scores and jids after the pair of NO_LIST.
local function start_some(settings, jids, jobs, waited, count, letters)
  local queue, cap, worker = settings.queue, settings.cap, settings.worker
  local expires = later(settings.heartbeat)
  local popped = popped_entry(worker)
  local locks, n = {'0', NO_LIST, false, unpack(jids)}, 0
  local special = settings.lock_time or letters[LOCK_TIME] or letters[ON_LOST]
  local put_at, put_time -- of the previous job: many are put at the same time
  for i = 1, count do
    local jid, job, key = jids[i], jobs[i], waited[i]
    if job.refused then
      park(queue, jid, job, not settings.run)
    elseif not (job.over and drop_expired(jid, 'waiting'))
      and (job[KLASS] or not job.err and call('exists', key) == 1) then
      n = n + 1
      -- A job only put has two entries now. Recurring jobs' children have a dash.
      local entries = record(key, popped, cap)
      if entries ~= 2 or string.find(jid, '-', 1, true) then
        read_rest(jid, key, job, popped, cap)
      end
      local ends = expires
      if special then
        ends = lock_special(key, job, worker, settings)
      else
        hand_out(key, worker, expires)
      end
      if job[TIME] ~= put_at or n == 1 then
        put_at, put_time = job[TIME], finite(job[TIME], now)
      end
      jobs[n], jids[n], waited[n] = job, jid, now - put_time
      locks[2 * n + 1], locks[2 * n + 2] = ends, jid
    else
      call('zrem', queue_key(queue, 'locks'), jid)
    end
  end
  for i = n + 1, #jids do
    jids[i], waited[i] = nil, nil
  end
  return locks
end

-- Locks at most a few hundred jobs of a queue for settings.worker, and appends the result of show
-- for each to out. With settings.run, call or try, these are the first of work, and leave it.
local function lock_some(settings, jids, show, out)
  local queue, run, worker = settings.queue, settings.run, settings.worker
  local jobs, waited, parked_before = sized(jids), sized(jids), parked_here
  local count, letters, passed = read_some(settings, jids, jobs, waited, #out)
  local common
  if letters[LIMITED] then
    count, common = admit_some(settings, jids, jobs, count, letters)
  end
  if passed and parked_here == parked_before then
    settings.stopped = true
  end
  if run then
    local first = count == 1 and '-1' or string.format('%d', -count)
    if count == 0 or
      type(run('zremrangebyrank', queue_key(queue, 'work'), first, '-1')) == 'table' then
      settings.stopped = true
      return
    end
  end
  if letters[FAIR] then
    leave_all_turns(queue, jobs, count)
  end
  local locks = start_some(settings, jids, jobs, waited, count, letters)
  local n = #jids
  if n == 0 then
    return
  end
  if letters[LIMITED] then
    note_all_started(jobs, n, locks, common)
  end
  if settings.rate then
    note_starts(settings.rate, n)
  end
  add_locks(queue, worker, locks, n)
  observe('wait', queue, waited)
  local tracked = settings.tracked and try('zmscore', prefix .. 'tracked', unpack(jids)) or none
  for i = 1, n do
    if tracked[i] then
      publish('popped', jids[i])
    end
    out[#out + 1] = show(jids[i], jobs[i], tracked[i] and true or false, worker,
      locks[2 * i + 1], settings.lasts)
  end
end

-- Like lock_some, for any number of jids, with run at most SLICE. Changes the list.
local function lock(settings, jids, show, out)
  for first = 1, #jids, SLICE do
    local some = #jids > SLICE and {unpack(jids, first, math.min(first + SLICE - 1, #jids))} or jids
    lock_some(settings, some, show, out)
  end
end
