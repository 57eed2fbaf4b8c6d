-- job: a job is where its state says, and its locks, tags, lifetime and limits agree. Looking for a
-- job in a failure group is expensive: a failed job is reported as ?failed, and its group is
-- checked only for the item's member group.
--
-- Items  j:<jid>, j:<jid> group

-- The end of a job's lifetime, or nil.
local function end_of(job)
  local values = split_options(job['x:o'])
  if (values[START_BY] or values[TTL]) and not is_last_put(job.id, values.put) then
    values[START_BY], values[TTL] = nil, nil
  end
  local since = job.state == 'failed' and list_of(job.failure).when or job.time
  return end_in_state(values, job.state, finite(since, now))
end

local function check_place(job, key, member)
  local place = place_of(job)
  local queue = job.queue or ''
  if not place or job.state == 'failed' and queue == '' and to_repair == '' and member == '' then
    diagnose('incomplete', key, '', 'state "' .. (job.state or '') .. '" in queue "' ..
      queue .. '"', false)
    return false
  elseif job.state == 'failed' and to_repair == '' and member == '' then
    diagnose('?failed', key, string.sub(place, #prefix + 1), '', false)
  elseif not is_at(place, job.id) then
    diagnose('lost', key, member, place, (job.state == 'failed' or usual_score(job)) and function()
      put_in_place(job)
    end, place, place_type(job.state))
  end
  return true
end

-- Sets a lock's expiry everywhere.
local function set_lock(job, ends)
  call('zadd', queue_key(job.queue, 'locks'), ends, job.id)
  call('zadd', worker_key(job.worker), ends, job.id)
  call('hset', job_key(job.id), 'expires', ends)
end

-- The latest possible expiry of a lock; now if there is none.
local function last_end(ends)
  local last = 0
  for _, at in pairs(ends) do
    last = is_possible_end(at) and math.max(last, at) or last
  end
  return last > 0 and last or now
end

local function differs(ends, last)
  return ends and math.abs(last - ends) > 1
end

local function check_lock(job, key)
  local worker = job.worker or ''
  if worker == '' then
    diagnose('no_worker', key, '', '', false)
    return
  elseif is_graced(job) then
    return -- the worker's list has its own check
  end
  local locks, jobs = queue_key(job.queue, 'locks'), worker_key(worker)
  local held, listed = score_at(locks, job.id), score_at(jobs, job.id)
  local expires = finite(job.expires, 0)
  local last = last_end({held, expires, listed})
  if differs(held, last) or differs(expires, last) or differs(listed, last) then
    diagnose('lock_differs', key, '', '', function()
      set_lock(job, string.format('%.6f', last))
    end, locks, 'zset', jobs, 'zset')
  elseif held and not listed and score_at(prefix .. 'workers', worker) then
    diagnose('lock_unlisted', key, '', worker, function()
      call('zadd', jobs, exact(held), job.id)
    end, jobs, 'zset')
  end
end

local function check_tags(job, key)
  if not job.tags or #job.tags <= 2 then
    return
  end
  local lacking, written = {}, {prefix .. 'tags', 'zset'}
  for _, tag in ipairs(list_of(job.tags)) do
    tag = tostring(tag)
    if not score_at(prefix .. 't:' .. tag, job.id) then
      lacking[#lacking + 1] = tag
      written[#written + 1], written[#written + 2] = prefix .. 't:' .. tag, 'zset'
    end
  end
  if #lacking > 0 then
    diagnose('tag_lacking', key, '', table.concat(lacking, ', '), function()
      add_tags(job.id, lacking, 1)
    end, unpack(written))
  end
end

-- A sweep corrects a deadline that is too early, and looks again at a job that it can't delete.
local function check_deadline(job, key)
  local ends, noted = end_of(job), score_at(prefix .. 'x:until', job.id)
  if ends and not (noted and noted <= math.max(ends, now) + LOOK_AGAIN + 1) then
    diagnose('deadline_lacking', key, '', exact(ends), function()
      call('zadd', prefix .. 'x:until', exact(ends), job.id)
    end, prefix .. 'x:until', 'zset')
  end
end

-- A job that could hold its unique key does so unless another job does.
local function check_claim(job, key)
  local claim = claim_of(job['x:o'])
  if claim and claim.m ~= 'for' and kept_by(claim.k, job.id) and not holder_of(claim.k) then
    diagnose('claim_lacking', key, '', claim.k, function()
      write_claim(job.id, claim)
    end, unique_key(claim.k), 'string')
  end
end

-- A running job has a slot of each of its limits with a maximum number of jobs.
local function check_slots(job, key)
  for _, name in ipairs(job.state == 'running' and limits_of(job['x:o']) or none) do
    local held = limit_key(name, 'held')
    if read_limit(name, 1).max > 0 and not score_at(held, job.id) then
      diagnose('slot_lacking', key, '', name, function()
        call('zadd', held, slot_end(finite(job.expires, now)), job.id)
      end, held, 'zset')
    end
  end
end

local function check_parked(job, key)
  local limit = limit_of(job)
  local wait = limit and limit_key(limit, 'wait')
  if limit and not score_at(wait, job.id) then
    diagnose('parked_lacking', key, '', limit, function()
      call('zadd', wait, waiting_score(job), job.id)
    end, wait, 'zset')
  end
end

local function check_options(job, key)
  local _, letters = split_options(job['x:o'])
  if letters == '' then
    diagnose('options_damaged', key, '', string.sub(job['x:o'], 1, 100), false)
    return
  end
  if has_lifetime(job['x:o']) then
    check_deadline(job, key)
  end
  check_claim(job, key)
  check_slots(job, key)
  check_parked(job, key)
end

-- Checks the fields that every job has.
local function check_fields(job, key)
  if not job.klass then
    diagnose('incomplete', key, '', 'no klass', false)
  end
  for _, field in ipairs({'priority', 'retries', 'remaining'}) do
    if not finite(job[field]) then
      diagnose('incomplete', key, '', 'the ' .. field .. ' "' .. (job[field] or '') .. '"', false)
    end
  end
end

return each(function(name, member, key)
  local job = fields_of(string.sub(name, 3))
  if not job or not check_place(job, key, member) or member ~= '' then
    return
  end
  if job.jid ~= job.id then
    diagnose('incomplete', key, '', 'the jid "' .. (job.jid or '') .. '"', false)
  else
    check_fields(job, key)
  end
  if not job.history and not is_there(key .. '-history') then
    diagnose('no_history', key, '', '', false)
  end
  if job.state == 'running' then
    check_lock(job, key)
  elseif job.state == 'depends' and not is_there(key .. '-dependencies') then
    diagnose('waits_for_nothing', key, '', '', function()
      go_on(job)
    end, queue_key(job.queue, 'work'), 'zset')
  end
  check_tags(job, key)
  if job['x:o'] then
    check_options(job, key)
  end
end)
