-- Whoever ends or renews a job must hold its lock.

-- @include "lib/check.lua"

-- Why a job is not this worker's; nil when it is.
local function not_owned(owner, state, worker)
  if not state then
    return 'Job does not exist'
  elseif state ~= 'running' then
    return 'Job is not currently running: ' .. state
  elseif owner ~= worker then
    return 'Job has been handed out to another worker: ' .. tostring(owner)
  end
end

local function must_own(area, owner, state, worker)
  local problem = not_owned(owner, state, worker)
  if problem then
    reject(area, problem)
  end
end
