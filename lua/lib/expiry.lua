-- Expiry of jobs (lib/lifetimes.lua). An expired job is deleted as by cancel, but a job with
-- dependents fails instead, in the group expired-<queue>.

-- The time in seconds until a job that can't be deleted now is checked again.
local LOOK_AGAIN = 60

-- Fails a job with these fields. Reports whether this was possible.
local function fail_expired(jid, job) -- cold
  local queue, worker = job.queue, job.worker or ''
  if not queue then
    return false
  end
  local group = 'expired-' .. queue
  add_failure(jid, group)
  call('hdel', job_key(jid), 'grace')
  fail_unasked(jid, queue, group, 'Its StartBy or TTL is over', job['x:o'], job_ended)
  if worker ~= '' then
    try('zrem', worker_key(worker), jid)
    publish('w:' .. worker, cjson.encode({
      jid = jid, worker = worker, event = 'canceled', queue = queue,
    }))
  end
  if job.state == 'running' then
    wake_for_slot(queue)
  end
  return true
end

-- Deletes a complete job with these tags and options.
local function delete_complete(jid, tags, stored) -- cold
  try('zrem', prefix .. 'completed', jid)
  delete_record(jid, tags)
  if stored and has_lifetime(stored) then
    note_life(jid)
  end
end

-- Expires a job with these fields that has not ended yet. Reports whether this was possible.
local function expire_job(jid, job) -- cold
  local key, state = job_key(jid), job.state
  if try('exists', key .. '-dependents') == 1 then
    return state ~= 'failed' and fail_expired(jid, job)
  end
  job.dependencies = try('smembers', key .. '-dependencies')
  cancel_job(jid, job, 'expired')
  return true
end

-- Expires a job if its time has come; otherwise corrects its time in x:until. as is the job's next
-- state, if different from its current one. Reports whether the job has expired.
local function end_life(jid, as) -- cold
  local job = named_fields(try, job_key(jid), {
    'state', 'queue', 'failure', 'worker', 'tags', 'x:o', 'priority', 'time',
  })
  local state, stored, since = job.state, job['x:o'] or '', finite(job.time, now)
  if state == 'failed' then
    since = finite(list_of(job.failure).when, now)
  end
  local ends = state and end_of_life(jid, stored, as or state, since)
  if ends and ends <= now then
    if state == 'complete' then
      delete_complete(jid, job.tags, stored)
      return true
    elseif expire_job(jid, job) then
      if state ~= 'failed' then
        tally(day_of(now), job.queue or '', 'expired', 1)
      end
      return true
    end
    ends = now + LOOK_AGAIN
  elseif state == 'running' and has_option(stored, START_BY) then
    ends = sooner(ends, now + LOOK_AGAIN) -- the job may have to wait again
  end
  note_life(jid, ends)
  return false
end

-- Expires jobs whose time has come, checking at most limit. Returns the number expired.
local function end_lives(limit) -- cold
  local ended = 0
  local due = try('zrangebyscore', prefix .. 'x:until', '-inf', stamp, 'LIMIT', 0, limit)
  for i = 1, #due do
    ended = ended + (end_life(due[i]) and 1 or 0)
  end
  return ended
end
