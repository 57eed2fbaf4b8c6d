-- Cancels as many of the given jobs as possible.

-- Reads a job to cancel together with the n jobs among, or leaves out the job.
local function read_cancelable(jid, among, n)
  local many = try('scard', job_key(jid) .. '-dependencies')
  if type(many) == 'number' and many > max_unlinked() then
    return leave_out(jid, 'long', 'it waits for too many others')
  end
  local ok, job = pcall(read_job_to_cancel, jid)
  local dependents = dependents_beyond(try, jid, among, n)
  if not ok or dependents.err then
    leave_out(jid, 'server', 'it can not be read')
  elseif not job.state then
    leave_out(jid, 'not_found', 'no such job')
  elseif job.state == 'complete' then
    leave_out(jid, 'finished', 'the job is complete')
  else
    job.dependents = dependents
    return job
  end
end

-- Leaves out jobs with dependents outside the jobs to cancel.
local function spare_dependencies(jids, jobs)
  local changed
  repeat
    changed = false
    for i = 1, #jids do
      local job = jobs[jids[i]]
      local other = job and outsider(job.dependents, jobs)
      if other then
        jobs[jids[i]], changed = nil, true
        leave_out(jids[i], 'has_dependents', other .. ' depends on it')
      end
    end
  until not changed
end

-- Cancels jobs, leaving out any that can't be canceled. Returns the number canceled.
local function cancel_each(jids)
  jids = union({}, jids, 1) -- each once
  local among, jobs, gone = set_of(jids, 1), {}, {}
  for i = 1, #jids do
    jobs[jids[i]] = read_cancelable(jids[i], among, #jids)
  end
  spare_dependencies(jids, jobs)
  must_publish()
  for i = 1, #jids do
    gone[#gone + 1] = jobs[jids[i]] and jids[i] or nil
  end
  leave_together(gone)
  for i = 1, #gone do
    cancel_job(gone[i], jobs[gone[i]])
  end
  return #gone
end
