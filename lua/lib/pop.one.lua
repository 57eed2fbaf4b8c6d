-- A Go call of pop in the usual case: the next job of a quiet queue.

-- Pops the job. Returns the names of its values, the values, and the entries of its history, or an
-- empty list without a job. If anything is unusual, returns nil and writes nothing.
local function pop_one(queue, worker)
  must_publish()
  local jid = call('zrevrange', queue_key(queue, 'work'), '0', '0')[1]
  local key = job_key(jid or '')
  local job = jid and read_waiting(key)
  if job and not is_usual_job(job) then
    return nil
  end
  local found = call('exists', prefix .. 'paused_queues', prefix .. 'tracked',
    queue_key(queue, 'recur'), queue_key(queue, 'scheduled'), key .. '-dependents',
    key .. '-dependencies', prefix .. 'config', queue_key(queue, 'locks'))
  local lasts, cap = read_quiet(queue, found, 0)
  if not lasts then
    return nil
  end
  local reply = empty_list
  if job then
    local values = lock_one(worker, queue, jid, job, lasts, cap)
    reply = {NAMES, values, unpack(try('lrange', key .. '-history', '0', '-1'))}
  end
  add_first(prefix .. 'workers', stamp, worker)
  return reply
end
