-- Canceling jobs together. No job is canceled if any has a dependent outside. If there are too many
-- jobs for one call, the caller must name the rest again. Dependents are canceled first, so no job
-- ever waits for a deleted job.

-- The maximum number of jobs that a call cancels.
local MAX_CANCELED = 100

-- The maximum number of dependents that a call reads, for all jobs together.
local MAX_DEPENDENTS = 20000

-- Returns the dependents of each job. Fails if any dependent is not among these jobs.
local function dependents_of_all(jids) -- cold
  local among, dependents, count = set_of(jids, 1), {}, 0
  for i = 1, #jids do
    dependents[jids[i]] = check_dependents(jids[i], among, #jids)
    count = count + #dependents[jids[i]]
    if count > MAX_DEPENDENTS then
      reject('Cancel', 'The jobs have more than ' .. MAX_DEPENDENTS .. ' dependents')
    end
  end
  return dependents
end

-- Orders the jids so that all dependents of a job precede it.
local function dependents_first(jids, dependents) -- cold
  local order, looked = {}, {}
  for i = 1, #jids do
    local path = {not looked[jids[i]] and jids[i] or nil}
    while path[1] do
      local jid = path[#path]
      looked[jid] = (looked[jid] or 0) + 1
      local other = dependents[jid][looked[jid]]
      if not other then
        order[#order + 1], path[#path] = jid, nil
      elseif not looked[other] then
        path[#path + 1] = other
      end
    end
  end
  return order
end

-- Reads the first of these jobs: as many as a call may cancel, given their dependencies. Returns
-- none if the first job has too many.
local function read_first(jids) -- cold
  local jobs, left = {}, max_unlinked()
  for i = 1, #jids do
    local job = read_job_to_cancel(jids[i], left)
    left = left - #job.dependencies
    if left < 0 then
      break
    end
    jobs[i] = job
  end
  return jobs
end
