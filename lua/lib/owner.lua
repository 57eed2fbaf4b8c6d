-- Whoever ends or renews a job must hold its lock.

-- @include "lib/check.lua"

-- Errors unless the job exists, runs, and is this worker's.
local function must_own(area, jid, owner, state, worker)
  if not state then
    reject(area, 'Job does not exist: ' .. jid)
  elseif state ~= 'running' then
    reject(area, 'Job is not currently running: ' .. state)
  elseif owner ~= worker then
    reject(area, 'Job has been handed out to another worker: ' .. tostring(owner))
  end
end
