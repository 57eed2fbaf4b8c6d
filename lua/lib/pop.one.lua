-- The usual call of pop from Go: the next job of a quiet queue.

-- Pops the job. Returns the names of its values, these, and the entries of its history; or nil if
-- anything is unusual: nothing was written then.
local function pop_one(queue, worker)
  must_publish()
  local jid = call('zrevrange', queue_key(queue, 'work'), '0', '0')[1]
  if not jid then
    return nil
  end
  local key = job_key(jid)
  local found = call('exists', prefix .. 'paused_queues', prefix .. 'tracked',
    queue_key(queue, 'recur'), queue_key(queue, 'scheduled'), key .. '-dependents',
    key .. '-dependencies', prefix .. 'config', queue_key(queue, 'locks'))
  local lasts, cap = DEFAULT_HEARTBEAT, DEFAULT_MAX_JOB_HISTORY
  if found > 0 then
    lasts, cap = read_beside(queue, found, 0)
  end
  local job = lasts and read_waiting(key)
  if not job or not job[KLASS] or job[OPTIONS] then
    return nil
  end
  local values = lock_one(worker, queue, jid, job, lasts, cap)
  local reply = {NAMES, values, unpack(try('lrange', key .. '-history', '0', '-1'))}
  add_first(prefix .. 'workers', stamp, worker)
  return reply
end
