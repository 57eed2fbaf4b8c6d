-- Completing a job in the usual case: no next queue, no options, no dependents.

-- Completes a worker's job. With since, the worker must have taken the job at that time. Empty data
-- keeps the job's data. If anything is unusual, returns false and writes nothing.
local function complete_one(worker, jid, queue, data, since)
  must_publish()
  local key = job_key(jid)
  local job = read_before_end(key)
  local owner, state, began, retries, place, grace, stored = unpack(job)
  if owner ~= worker or state ~= 'running' or place ~= queue or grace
    or not is_for_clients(stored) or since and since ~= began then
    return false
  end
  local found = call('exists', prefix .. 'tracked', prefix .. 'x:rest', key .. '-dependents',
    prefix .. 'config')
  local seconds, count, cap, most
  if found > 0 then
    if found > call('exists', prefix .. 'config') then
      return false
    end
    seconds, count, cap, most = unpack(completing_config(queue))
    if most then
      return false
    end
  end
  cap = history_cap(cap)
  unlock(queue, {jid}, {now - finite(began, now)}, worker)
  record_done(jid, key, entry(now, '"done"', nil), cap)
  settle(key, 'complete', '', retries or DEFAULT_RETRIES, data ~= '' and {'data', data} or {})
  clear_completed(try('zadd', prefix .. 'completed', stamp, jid), 1, seconds, count)
  publish_completed(jid, completed_event(queue))
  return true
end
