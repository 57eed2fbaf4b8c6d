-- The usual call of reserve: a woken worker asks one queue, which is quiet and has at most one job.

-- The time of a lock and the length of a history in a quiet queue with settings or locks, found
-- keys of its own or others' in all. Nothing if these make it unusual.
local function read_beside(queue, found, wait)
  local config, locks = prefix .. 'config', queue_key(queue, 'locks')
  if found > call('exists', config, locks)
    or call('zcount', locks, '-inf', exact(now + wait)) > 0 then
    return nil
  end
  local own, general, most, cap, max_rate = unpack(call('hmget', config, queue .. '-heartbeat',
    'heartbeat', queue .. '-max-concurrency', 'max-job-history', queue .. '-max-rate'))
  if most or max_rate then
    return nil
  end
  return kept_lock_time(lock_time(own, general)), history_cap(cap)
end

-- Locks the only job of a queue. Returns its values.
local function lock_one(worker, queue, jid, job, lasts, cap)
  local key, expires = job_key(jid), later(lasts)
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

-- The reply to the usual call, or nil if anything is unusual. Nothing is written then.
local function reserve_one()
  local _, _, worker, count, poll, n, brief, is_brief, more, ahead, queue, another = unpack(ARGV)
  local slots, wait = tonumber(count), tonumber(poll)
  if n ~= '4' or brief ~= 'brief' or is_brief ~= '1' or more ~= 'ahead' or not queue or another
    or queue == '' or string.byte(worker) == LIST or not (slots and slots > 0)
    or not (wait and wait >= 0 and wait < 1e9) then
    return nil
  end
  must_publish()
  local jids = call('zrevrange', queue_key(queue, 'work'), '0', '1')
  if jids[2] then
    return nil
  end
  local found = call('exists', prefix .. 'paused_queues', prefix .. 'tracked',
    queue_key(queue, 'recur'), queue_key(queue, 'scheduled'), unrelayed_key(),
    prefix .. 'config', queue_key(queue, 'locks'))
  local lasts, cap = DEFAULT_HEARTBEAT, DEFAULT_MAX_JOB_HISTORY
  if found > 0 then
    lasts, cap = read_beside(queue, found, wait)
    if not lasts then
      return nil
    end
  end
  local jid, values, fields = jids[1], nil, nil
  if jid then
    local job = read_waiting(job_key(jid))
    if not job[KLASS] or job[OPTIONS] then
      return nil
    end
    values = lock_one(worker, queue, jid, job, lasts, cap)
    fields = reply_names(slots <= 1 and ahead == '0')
  end
  if jid and slots == 1 then
    try('srem', idle_key(), worker)
    return {0, '0', '', 2, fields, values}
  end
  -- It asks again when the lock would end.
  if jid and wait > lasts then
    wait, poll = lasts, lasting(lasts)
  end
  local again = try('sadd', idle_key(), worker) == 0
  wait_for(queue, worker, lapse(wait), again)
  return {0, poll, '', 2, fields, values}
end
