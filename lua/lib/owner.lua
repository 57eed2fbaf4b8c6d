-- The check that a worker which finishes or renews a job holds its lock.

-- @include "lib/base.lua"
-- @include "lib/check.lua"
-- @include "lib/settings.lua"

-- Why this worker does not hold a job, or nil. since is when the worker took the job, if it knows:
-- it may have lost the job and taken it again.
local function not_owned(jid, owner, state, worker, time, since)
  if not state then
    return 'Job ' .. jid .. ' does not exist'
  elseif state ~= 'running' then
    return 'Job ' .. jid .. ' is not currently running: ' .. state
  elseif owner ~= worker then
    return 'Job ' .. jid .. ' has been handed out to another worker: ' .. tostring(owner)
  elseif since and since ~= time then
    return 'Job ' .. jid .. ' has been handed out to another worker: ' .. worker .. ', at ' ..
      tostring(time)
  end
end

local function must_own(area, jid, queue, owner, state, worker)
  local problem = not_owned(jid, owner, state, worker)
  if problem then
    reject(area, problem)
  elseif not queue then
    reject(area, 'Job ' .. jid .. ' is in no queue')
  end
end

-- How long a lock lasts in a queue, in seconds.
local function heartbeat_of(queue)
  local config = try('hmget', prefix .. 'config', queue .. '-heartbeat', 'heartbeat')
  return lock_time(config[1], config[2])
end
