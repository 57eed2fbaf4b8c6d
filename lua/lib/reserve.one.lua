-- Reserving in the usual case: a woken worker asks a single quiet queue with at most one job.

-- Returns the reply to the call. If anything is unusual, returns nil and writes nothing.
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
  local jid, job = jids[1], nil
  if jid then
    job = read_waiting(job_key(jid))
    if not is_usual_job(job) then
      return nil
    end
  end
  local found = call('exists', prefix .. 'paused_queues', prefix .. 'tracked',
    queue_key(queue, 'recur'), queue_key(queue, 'scheduled'), unrelayed_key(),
    prefix .. 'config', queue_key(queue, 'locks'))
  local lasts, cap = read_quiet(queue, found, wait)
  if not lasts then
    return nil
  end
  local values, fields
  if jid then
    values = lock_one(worker, queue, jid, job, lasts, cap)
    fields = reply_names(slots <= 1 and ahead == '0')
  end
  if jid and slots == 1 then
    try('srem', idle_key(), worker)
    return {0, '0', '', 2, fields, values}
  end
  -- The worker must ask again at lock expiry.
  if jid and wait > lasts then
    wait, poll = lasts, lasting(lasts)
  end
  local again = try('sadd', idle_key(), worker) == 0
  wait_for(waiting_key(queue), worker, lapse(wait), again)
  return {0, poll, '', 2, fields, values}
end
