-- Whoever ends or renews a job must hold its lock.

-- @include "lib/base.lua"
-- @include "lib/check.lua"

-- Why a job is not this worker's; nil when it is.
local function not_owned(jid, owner, state, worker)
  if not state then
    return 'Job ' .. jid .. ' does not exist'
  elseif state ~= 'running' then
    return 'Job ' .. jid .. ' is not currently running: ' .. state
  elseif owner ~= worker then
    return 'Job ' .. jid .. ' has been handed out to another worker: ' .. tostring(owner)
  end
end

local function must_own(area, jid, owner, state, worker)
  local problem = not_owned(jid, owner, state, worker)
  if problem then
    reject(area, problem)
  end
end

-- How long a lock lasts in a queue, in seconds.
local function heartbeat_of(queue)
  local config = call('hmget', prefix .. 'config', queue .. '-heartbeat', 'heartbeat')
  return finite(config[1], finite(config[2], 60))
end
