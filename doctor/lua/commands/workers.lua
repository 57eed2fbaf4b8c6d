-- workers: a worker's list has the jobs that the worker runs, and workers that wait for jobs are
-- alive.
--
-- Items  w:<worker>:jobs jid, x:idle worker, x:idle:<queue> worker, x:list:<list> worker,
--        x:due:<queue>. A worker that begins with the byte 1 stands for those with a list of queues

-- Whether a worker shows no sign of life: no registration, and no subscription. Receivers are never
-- registered.
local function is_dead(worker)
  if string.byte(worker) == LIST then
    return not is_there(listed_key(string.sub(worker, 2)))
  end
  local channel = prefix .. 'x:wake:' .. worker
  local registered, has_gone = registration(worker)
  return (has_gone or not registered) and call('pubsub', 'numsub', channel)[2] == 0
end

local function check_job(key, worker, jid)
  local job = fields_of(jid)
  local has = job and job.state == 'running' and job.worker == worker and not is_graced(job)
  if not has and score_at(key, jid) then
    diagnose('lock_left', key, jid, job and job.state or 'gone', function()
      call('zrem', key, jid)
    end)
  end
end

local function check_idle(key, worker)
  local listed = is_in(key, worker) or score_at(key, worker)
  if listed and is_dead(worker) then
    diagnose('idle_dead', key, worker, '', function()
      call(key == idle_key() and 'srem' or 'zrem', key, worker)
    end)
  end
end

local function check_claim(key)
  local held = try('get', key)
  local at, holder = string.match(type(held) == 'string' and held or '', '^(%S+) (.*)$')
  local lasts = call('pttl', key) == -1
  if held and (not finite(at) or lasts or is_in(idle_key(), holder) and is_dead(holder)) then
    diagnose('claim_dead', key, '', holder or '', function()
      call('del', key)
    end)
  end
end

return each(function(name, member, key)
  local worker = between(name, 'w:', ':jobs')
  if worker then
    check_job(key, worker, member)
  elseif between(name, 'x:due:', '') then
    check_claim(key)
  else
    check_idle(key, member)
  end
end)
