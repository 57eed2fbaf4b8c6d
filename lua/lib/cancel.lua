-- Canceling jobs deletes them.

-- Returns one of these jobs outside the set among, or nil.
local function outsider(jids, among)
  for i = 1, #jids do
    if not among[jids[i]] then
      return jids[i]
    end
  end
end

-- The number of a job's dependents to read first.
local FEW = 10

-- Returns the dependents of a job: all of them if they are few or all among n jobs, otherwise
-- enough to include an outsider.
local function dependents_beyond(run, jid, among, n)
  local key = job_key(jid) .. '-dependents'
  local found = run('srandmember', key, FEW + 1)
  if #found <= FEW or outsider(found, among) then
    return found
  end
  return run('srandmember', key, n + 1)
end

-- Fails if a dependent of this job is not among the n jobs to cancel. Returns the dependents.
local function check_dependents(jid, among, n)
  local dependents = dependents_beyond(call, jid, among, n)
  local other = outsider(dependents, among)
  if other then
    raise('Cancel', new_problem('has_dependents', nil, jid .. ' is a dependency of ' .. other ..
      ' but is not mentioned to be canceled'))
  end
  return dependents
end

-- Reads the fields needed by cancel_job, and the job's dependencies: all, or up to most + 1.
local function read_job_to_cancel(jid, most)
  local key = job_key(jid)
  local job = named_fields(call, key, {
    'state', 'queue', 'failure', 'worker', 'tags', 'x:o', 'priority',
  })
  key = key .. '-dependencies'
  job.dependencies = most and call('srandmember', key, most + 1) or call('smembers', key)
  return job
end

-- Deletes a job unless it is complete. how is "expired" for an expired job.
local function cancel_job(jid, job, how)
  local state, queue, worker, stored = job.state, job.queue, job.worker, job['x:o']
  if state == 'complete' then
    return
  end
  local message = cjson.encode({jid = jid, worker = worker, event = 'canceled', queue = queue})
  publish('log', message)
  if worker and worker ~= '' then
    try('zrem', worker_key(worker), jid)
    publish('w:' .. worker, message)
  end
  if queue then
    leave_queue(queue, jid)
  end
  if state == 'running' and queue then
    wake_for_slot(queue)
  end
  for _, other in ipairs(job.dependencies) do
    try('srem', job_key(other) .. '-dependents', jid)
  end
  if state == 'failed' then
    forget_failure(jid, queue, job.failure)
  end
  delete_record(jid, job.tags)
  publish_tracked('canceled', jid)
  if stored then
    job_ended(jid, stored, how or 'canceled')
    if has_option(stored, FAIR) and state == 'waiting' and queue then
      leave_turns(queue, job.priority)
    end
  end
end
