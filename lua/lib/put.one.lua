-- Putting a job in the usual case: one new job, without options and a delay.

-- Puts the job, and returns its jid. If anything is unusual, returns nil and writes nothing.
local function put_one()
  local _, _, _, queue, jid, klass, data, delay, checked, is_checked, another = unpack(ARGV)
  if checked ~= 'new' and checked ~= 'checked' or is_checked ~= '1' or another or delay ~= '0'
    or queue == '' or jid == '' then
    return nil
  end
  must_publish()
  local key, idle = job_key(jid), false
  local found = call('exists', idle_key(), prefix .. 'tracked', prefix .. 'x:empty', key)
  if found > 0 then
    idle = call('exists', idle_key()) == 1
  end
  local score = score_text()
  if found > (idle and 1 or 0) or not score then
    return nil
  end
  call('zadd', queue_key(queue, 'work'), score, jid)
  local text, first, last = put_texts(queue, idle)
  write_job(queue, {key = key, jid = jid, klass = klass, data = data, state = 'waiting'}, text)
  publish_put(jid, first, last)
  know_queue(queue)
  if idle then
    wake_first(queue)
  end
  return jid
end
