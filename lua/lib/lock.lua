-- Locking jobs for a worker: the code that pop and reserve share once they have chosen the jobs.

-- The number of locks from which on a sorted set should not be a list.
local MANY_LOCKS = 6

-- A member that is too long for Redis to keep a sorted set as a list.
local NO_LIST = '-----------------------------------------------------------------'

-- The maximum number of jobs that are locked together.
local SLICE = 500

-- The maximum number of jobs that a call parks, and the number that it has parked.
local MAX_PARKED = 200
local parked_here = 0

-- When the first lock ends that this call has taken for another time than the queue's.
local first_own_end = math.huge

-- The maximum number of bytes of data that a call returns, unless one job has more, and the number
-- so far. Most calls have no such limit.
local most_bytes
local taken_bytes = 0

-- Reads and clears the fields that jobs may have after more than a put. recorded is the entry that
-- was just added to the history.
local function read_rest(jid, key, job, recorded, cap) -- cold
  local rest = try('hmget', key, 'failure', 'spawned_from_jid', 'history', 'grace')
  job[FAILURE], job[SPAWNED_FROM_JID] = rest[1], rest[2]
  adopt_before(jid, rest[3], recorded, cap)
  if rest[4] == NO_GRACE then -- of a lock that was timed out
    call('hdel', key, 'grace')
  end
end

-- Adds scores and members to a sorted set, from the place first on. If that is 1, the pair of
-- NO_LIST comes first, and leaves the set again: Redis keeps a small sorted set as a list, in which
-- every change walks over all members. A set that has had a long member is not a list until it is
-- empty.
local function add_members(run, key, members, first, last)
  local added = run('zadd', key, unpack(members, first, last))
  if first == 1 and type(added) == 'number' then
    run('zrem', key, NO_LIST)
  end
end

-- Adds n locks, which are scores and jids after the pair of NO_LIST, to the locks of a queue and
-- the jobs of a worker. Small calls make no list of one jid in sixteen, because many workers may
-- hold few locks each.
local function add_locks(queue, worker, locks, n)
  local first = n < MANY_LOCKS and (string.byte(locks[4], -1) or 1) % 16 > 0 and 3 or 1
  add_members(call, queue_key(queue, 'locks'), locks, first, 2 * n + 2)
  add_members(try, worker_key(worker), locks, first, 2 * n + 2)
end

-- Locks a job for the time in its options, or for the time of the call. Returns the end of the
-- lock. job.own_end is set if it may differ from the others of this call.
local function lock_special(key, job, worker, settings) -- cold
  local stored, seconds, more = job[OPTIONS] or '', settings.lock_time, {}
  if seconds then
    more = {'grace', NO_GRACE}
  end
  if has_option(stored, ON_LOST) then
    more[#more + 1] = 'x:place'
    more[#more + 1] = job[TIME] or stamp
  end
  local ends = now + (seconds or own_lock_time(stored) or settings.heartbeat)
  first_own_end = math.min(first_own_end, ends)
  job.own_end = has_any(stored, LOCK_TIME .. ON_LOST)
  call('hset', key, 'state', 'running', 'worker', worker, 'expires', exact(ends), 'time', stamp,
    unpack(more))
  return exact(ends)
end

-- Decides whether a job with limits may start. Returns false if it stays where it is, with all that
-- follow: the call may park no more. run is as in lock_some. settings.places is set when a job is
-- parked: others may take its place.
local function may_start(jid, job, settings, run) -- cold
  local stored = job[OPTIONS]
  if not job[KLASS] or job.over then
    return true
  elseif run and parked_here >= MAX_PARKED then
    settings.stopped, droppable = true, 0
    return false
  end
  if not run then
    -- The job has lost its lock, and is admitted like any other.
    drop_slots(jid, stored, settings.most or 1)
  end
  local found, refused = admit(jid, stored, settings.most or 1)
  if refused then
    parked_here = parked_here + 1
    job.refused, settings.places = refused, true
  else
    job.limits = found
  end
  return true
end

-- Decides about the first count jobs, some of which have limits. Returns the number of jobs that
-- don't stay where they are.
local function admit_each(jids, count, jobs, settings, run) -- cold
  for i = 1, count do
    local stored = jobs[i][OPTIONS]
    if stored and has_option(stored, LIMITED)
      and not may_start(jids[i], jobs[i], settings, run) then
      return i - 1
    end
  end
  return count
end

-- Reads the scores of the first count jobs to park. A job that is not in work, because its lock was
-- lost, will be the first of its priority.
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

-- Parks a job that may not start.
local function put_aside(queue, jid, job, run) -- cold
  if not run then
    try('zrem', queue_key(queue, 'locks'), jid)
    call('hset', job_key(jid), 'worker', '', 'expires', '0')
  end
  park(queue, jid, job.refused, job.score, job[TIME])
end

-- Removes tenants if the first count jobs, which were taken, were the last that took turns.
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

-- Locks at most a few hundred jobs, and appends the result of show for each job to out. Drops jids
-- without a job, and expired jobs. With run, call or try, they are the first ones of work, and are
-- taken from there. Parks jobs whose limits have no room. A job with limits that would wait for its
-- worker stays where it is, with all that follow, because others could use its slots.
local function lock_some(queue, jids, worker, settings, show, out, run)
  local cap = settings.cap
  local expires = later(settings.heartbeat)
  local details = '{"worker":' .. cjson.encode(worker) .. '}'
  local popped = entry(now, '"popped"', details)
  local jobs, waited, locks = sized(jids), sized(jids), {'0', NO_LIST, false, unpack(jids)}
  local n, count, over, limited, fair, common = 0, #jids, 0, false, false, nil
  local text, has, may_expire -- the options text of the job before, and what it says
  local special, expiring
  local passed, parked_before = false, parked_here
  for i = 1, count do
    local key = job_key(jids[i])
    local job = try('hmget', key, 'klass', 'queue', 'priority', 'retries', 'remaining', 'data',
      'tags', 'time', 'x:o')
    local stored, size = job[OPTIONS], #(job[DATA] or '')
    if stored and run and settings.direct and #out + i > settings.direct
      and has_option(stored, LIMITED) then
      count, passed = i - 1, true
      break
    end
    jobs[i], waited[i] = job, key
    taken_bytes = taken_bytes + size
    if most_bytes and taken_bytes > most_bytes and taken_bytes > size and run then
      count, settings.stopped, droppable = i - 1, true, 0
      break
    end
    if stored then
      if stored ~= text then
        text = stored
        has = letters_of(stored)
        limited, fair = limited or has[LIMITED], fair or has[FAIR]
        special = special or has[LOCK_TIME] or has[ON_LOST]
        may_expire = has[START_BY] or has[TTL]
        expiring = expiring or may_expire
      end
      if may_expire and is_over(jids[i], stored, 'waiting') then
        job.over, over = true, over + 1
        if run and over >= droppable then
          count, settings.stopped, droppable = i, true, 0
          break
        end
      end
    end
  end
  if limited then
    if run and count > 0 and not expiring and parked_here == 0 then
      common = admit_alike(count, jobs, settings.most or 1)
    end
    if not common then
      count = admit_each(jids, count, jobs, settings, run)
      read_scores(queue, jids, count, jobs, settings, run)
    end
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
  if fair then
    leave_all_turns(queue, jobs, count)
  end
  local put_at, put_time -- of the job before: many were put at the same time
  for i = 1, count do
    local jid, job, key = jids[i], jobs[i], waited[i]
    if limited and job.refused then
      put_aside(queue, jid, job, run)
    elseif not (job.over and drop_expired(jid, 'waiting'))
      and (job[KLASS] or not job.err and call('exists', key) == 1) then
      n = n + 1
      -- A job that was only put has two entries by now. Those of recurring jobs have a dash.
      local entries = record(key, popped, cap)
      if entries ~= 2 or string.find(jid, '-', 1, true) then
        read_rest(jid, key, job, popped, cap)
      end
      local ends = expires
      if settings.lock_time or special then
        ends = lock_special(key, job, worker, settings)
      else
        call('hset', key, 'state', 'running', 'worker', worker, 'expires', expires, 'time', stamp)
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
  if n == 0 then
    return
  end
  if limited then
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
      locks[2 * i + 1])
  end
end

-- Like lock_some, for any number of jids, with run at most SLICE. Changes the list.
local function lock(queue, jids, worker, settings, show, out, run)
  for first = 1, #jids, SLICE do
    local some = #jids > SLICE and {unpack(jids, first, math.min(first + SLICE - 1, #jids))} or jids
    lock_some(queue, some, worker, settings, show, out, run)
  end
end
