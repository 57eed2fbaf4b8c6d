-- The usual call of pop from Go: the next job of a quiet queue.

-- Pops the job. Returns the names of its values, these, and the entries of its history, or an empty
-- list; or nil if anything is unusual: nothing was written then.
local function pop_one(queue, worker)
  must_publish()
  local jid = call('zrevrange', queue_key(queue, 'work'), '0', '0')[1]
  local key = job_key(jid or '')
  local job = jid and read_waiting(key)
  if job and (not job[KLASS] or not is_for_clients(job[OPTIONS])) then
    return nil
  end
  local found = call('exists', prefix .. 'paused_queues', prefix .. 'tracked',
    queue_key(queue, 'recur'), queue_key(queue, 'scheduled'), key .. '-dependents',
    key .. '-dependencies', prefix .. 'config', queue_key(queue, 'locks'))
  local lasts, cap = DEFAULT_HEARTBEAT, DEFAULT_MAX_JOB_HISTORY
  if found > 0 then
    lasts, cap = read_beside(queue, found, 0)
    if not lasts then
      return nil
    end
  end
  local reply = empty_list
  if job then
    local values = lock_one(worker, queue, jid, job, lasts, cap)
    reply = {NAMES, values, unpack(try('lrange', key .. '-history', '0', '-1'))}
  end
  add_first(prefix .. 'workers', stamp, worker)
  return reply
end
