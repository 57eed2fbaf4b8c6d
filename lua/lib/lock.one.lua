-- Locking a job in the usual case: the only job of a call, without options, in a quiet queue.

-- Reports whether a job exists, and has only options left to clients.
local function is_usual_job(job)
  return job[KLASS] and is_for_clients(job[OPTIONS])
end

-- Returns a quiet queue's lock time and history length. Returns nothing if the queue may not be
-- quiet: if the number of keys found includes any besides settings and locks, a lock expires within
-- the wait, or a setting limits the jobs.
local function read_quiet(queue, found, wait)
  if found == 0 then
    return DEFAULT_HEARTBEAT, DEFAULT_MAX_JOB_HISTORY
  end
  local locks = queue_key(queue, 'locks')
  if found > call('exists', prefix .. 'config', locks)
    or call('zcount', locks, '-inf', exact(now + wait)) > 0 then
    return nil
  end
  local own, general, most, cap, max_rate = unpack(taking_config(queue))
  local lasts = lock_time(own, general)
  if most or max_rate or lasts <= 0 then
    return nil
  end
  return lasts, history_cap(cap)
end

-- Locks the next job of a queue. Returns its values.
local function lock_one(worker, queue, jid, job, lasts, cap)
  local key = job_key(jid)
  local expires = later(lasts)
  call('zremrangebyrank', queue_key(queue, 'work'), '-1', '-1')
  local popped = popped_entry(worker)
  local entries = record(key, popped, cap)
  if entries ~= 2 or string.find(jid, '-', 1, true) then
    read_rest(jid, key, job, popped, cap)
  end
  hand_out(key, worker, expires)
  add_locks(queue, worker, {'0', NO_LIST, expires, jid}, 1)
  observe('wait', queue, {now - finite(job[TIME], now)})
  return reserved_values(jid, job, false, worker, expires, lasting(lasts))
end
