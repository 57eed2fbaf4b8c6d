-- job: a job is where its state says, its locks agree, and its tags, lifetime and limit know it.
-- Whether a failure group has a job is expensive to find out: of a failed job it reports ?failed,
-- and checks if the item has the member group.
--
-- Items  j:<jid>, j:<jid> group

-- When the life of a job ends, or nil.
local function end_of(job)
  local _, values = split_options(job['x:o'])
  if (values[START_BY] or values[TTL]) and not is_last_put(job.id, values.put) then
    values[START_BY], values[TTL] = nil, nil
  end
  local since = job.state == 'failed' and list_of(job.failure).when or job.time
  return end_in_state(values, job.state, finite(since, now))
end

local function check_place(job, key, member)
  local place = place_of(job)
  if not place then
    diagnose('incomplete', key, '', 'state "' .. (job.state or '') .. '" in queue "' ..
      (job.queue or '') .. '"', false)
    return false
  elseif job.state == 'failed' and to_repair == '' and member == '' then
    diagnose('?failed', key, string.sub(place, #prefix + 1), '', false)
  elseif not is_at(place, job.id) then
    diagnose('lost', key, member, place, (job.state == 'failed' or usual_score(job)) and function()
      put_in_place(job)
    end)
  end
  return true
end

-- Sets the end of a lock everywhere.
local function set_lock(job, ends)
  call('zadd', queue_key(job.queue, 'locks'), ends, job.id)
  call('zadd', worker_key(job.worker), ends, job.id)
  call('hset', job_key(job.id), 'expires', ends)
end

local function check_lock(job, key)
  local worker = job.worker or ''
  if worker == '' then
    diagnose('no_worker', key, '', '', false)
    return
  elseif is_graced(job) then
    return -- the worker's list has a check of its own
  end
  local held, expires = score_at(queue_key(job.queue, 'locks'), job.id), finite(job.expires, 0)
  local listed = score_at(worker_key(worker), job.id)
  local last = math.max(held or 0, expires, listed or 0)
  if held and last - held > 1 or last - expires > 1 or listed and last - listed > 1 then
    diagnose('lock_differs', key, '', '', function()
      set_lock(job, string.format('%.6f', last))
    end)
  elseif held and not listed and score_at(prefix .. 'workers', worker) then
    diagnose('lock_unlisted', key, '', worker, function()
      call('zadd', worker_key(worker), exact(held), job.id)
    end)
  end
end

local function check_tags(job, key)
  if not job.tags or #job.tags <= 2 then
    return
  end
  local lacking = {}
  for _, tag in ipairs(list_of(job.tags)) do
    tag = tostring(tag)
    if not score_at(prefix .. 't:' .. tag, job.id) then
      lacking[#lacking + 1] = tag
    end
  end
  if #lacking > 0 then
    diagnose('tag_lacking', key, '', table.concat(lacking, ', '), function()
      for i = 1, #lacking do
        add_tag(job.id, lacking[i])
      end
    end)
  end
end

local function check_options(job, key)
  if has_lifetime(job['x:o']) then
    local ends = end_of(job)
    if ends and not score_at(prefix .. 'x:until', job.id) then
      diagnose('deadline_lacking', key, '', exact(ends), function()
        call('zadd', prefix .. 'x:until', exact(ends), job.id)
      end)
    end
  end
  local limit = limit_of(job)
  if limit and not score_at(limit_key(limit, 'wait'), job.id) then
    diagnose('parked_lacking', key, '', limit, function()
      call('zadd', limit_key(limit, 'wait'), waiting_score(job), job.id)
    end)
  end
end

return each(function(name, member, key)
  local job = fields_of(string.sub(name, 3))
  if not job or not check_place(job, key, member) or member ~= '' then
    return
  end
  if job.jid ~= job.id then
    diagnose('incomplete', key, '', 'the jid "' .. (job.jid or '') .. '"', false)
  end
  if not job.history and not is_there(key .. '-history') then
    diagnose('no_history', key, '', '', false)
  end
  if job.state == 'running' then
    check_lock(job, key)
  elseif job.state == 'depends' and not is_there(key .. '-dependencies') then
    diagnose('waits_for_nothing', key, '', '', function()
      go_on(job)
    end)
  end
  check_tags(job, key)
  if job['x:o'] then
    check_options(job, key)
  end
end)
