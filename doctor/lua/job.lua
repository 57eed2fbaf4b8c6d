-- job: a job is where its state says, its locks agree, and its tags, lifetime and limit know it.
-- Whether a failure group has a job is expensive to find out: of a failed job it tells ?failed, and
-- looks if the item has the member group.
--
-- Items  j:<jid>, j:<jid> group

-- When the life of a job ends, or nil.
local function end_of_life(job, letters, values)
  local s, t, k, failed = finite(values.s), finite(values.t), finite(values.k), finite(values.K)
  local since = finite(job.time, now)
  if string.find(letters, '[st]') then
    local entries = try('lrange', prefix .. 'j:' .. job.id .. '-history', 0, -1)
    for i = 1, #entries do
      local when = string.match(entries[i], '^%[(%-?%d+)[%d.]*,"put"')
      if when and tonumber(when) > finite(values.put, 0) then
        s, t = nil, nil -- it was put by a script that knows no lifetimes
      end
    end
  end
  if job.state == 'complete' then
    return k and math.min(since + k, t or math.huge) or t
  elseif job.state == 'failed' then
    local failed_at = finite(decoded(job.failure).when, now)
    return failed and failed >= 0 and failed_at + failed or not failed and t or nil
  elseif job.state == 'running' then
    return t
  end
  return s and math.min(s, t or math.huge) or t
end

local function check_place(job, key, member)
  local place = place_of(job)
  if not place then
    problem('incomplete', key, '', 'state "' .. (job.state or '') .. '" in queue "' ..
      (job.queue or '') .. '"', false)
    return false
  elseif job.state == 'failed' and wanted == '' and member == '' then
    problem('?failed', key, place, '', false)
  elseif not is_at(place, job) then
    problem('lost', key, member, prefix .. place, (job.state == 'failed' or score_of(job)) and function()
      put_in_place(job)
    end)
  end
  return true
end

-- Makes a lock end at a time, everywhere.
local function set_lock(job, ends)
  call('zadd', prefix .. 'q:' .. job.queue .. '-locks', ends, job.id)
  call('zadd', prefix .. 'w:' .. job.worker .. ':jobs', ends, job.id)
  call('hset', prefix .. 'j:' .. job.id, 'expires', ends)
end

local function check_lock(job, key)
  local worker = job.worker or ''
  if worker == '' then
    problem('no_worker', key, '', '', false)
    return
  elseif in_grace(job) then
    return -- the list of the worker is checked by itself
  end
  local lock, expires = score_in('q:' .. job.queue .. '-locks', job.id), finite(job.expires, 0)
  local listed = score_in('w:' .. worker .. ':jobs', job.id)
  local last = math.max(lock or 0, expires, listed or 0)
  if lock and last - lock > 1 or last - expires > 1 or listed and last - listed > 1 then
    problem('lock_differs', key, '', '', function()
      set_lock(job, string.format('%.6f', last))
    end)
  elseif lock and not listed and score_in('workers', worker) then
    problem('lock_unlisted', key, '', worker, function()
      call('zadd', prefix .. 'w:' .. worker .. ':jobs', exact(lock), job.id)
    end)
  end
end

local function check_tags(job, key)
  if not job.tags or #job.tags <= 2 then
    return
  end
  local lacking = {}
  for _, tag in ipairs(decoded(job.tags)) do
    tag = tostring(tag)
    if not score_in('t:' .. tag, job.id) then
      lacking[#lacking + 1] = tag
    end
  end
  if #lacking > 0 then
    problem('tag_lacking', key, '', table.concat(lacking, ', '), function()
      for i = 1, #lacking do
        if call('zadd', prefix .. 't:' .. lacking[i], stamp, job.id) == 1 then
          call('zincrby', prefix .. 'tags', 1, lacking[i])
        end
      end
    end)
  end
end

local function check_options(job, key)
  local letters, values = options_of(job['x:o'])
  if string.find(letters, '[stkK]') then
    local ends = end_of_life(job, letters, values)
    if ends and not score_in('x:until', job.id) then
      problem('deadline_lacking', key, '', exact(ends), function()
        call('zadd', prefix .. 'x:until', exact(ends), job.id)
      end)
    end
  end
  local limit = parked_by(job)
  if limit and not score_in('x:limit:' .. limit .. ':wait', job.id) then
    problem('parked_lacking', key, '', limit, function()
      call('zadd', prefix .. 'x:limit:' .. limit .. ':wait', work_score(job), job.id)
    end)
  end
end

return each(function(key, member)
  local job = read_job(string.sub(key, 3))
  if not job or not check_place(job, key, member) or member ~= '' then
    return
  end
  if job.jid ~= job.id then
    problem('incomplete', key, '', 'the jid "' .. (job.jid or '') .. '"', false)
  end
  if not job.history and not exists(key .. '-history') then
    problem('no_history', key, '', '', false)
  end
  if job.state == 'running' then
    check_lock(job, key)
  elseif job.state == 'depends' and not exists(key .. '-dependencies') then
    problem('waits_for_nothing', key, '', '', function()
      free(job)
    end)
  end
  check_tags(job, key)
  if job['x:o'] then
    check_options(job, key)
  end
end)
