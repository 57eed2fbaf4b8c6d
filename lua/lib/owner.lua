-- The check that a worker that finishes or renews a job holds its lock.

-- The reason why this worker does not hold a job, or nil. since is the time at which the worker
-- took the job, if it is known: it may have lost the job and taken it again. Each command has its
-- own wording, which other clients rely on.
local function not_owned(area, jid, owner, state, worker, time, since)
  if not state then
    return 'Job ' .. jid .. ' does not exist'
  elseif state ~= 'running' then
    local is_not = ({Fail = ' not', Heartbeat = ' not'})[area] or ' is not'
    return 'Job ' .. jid .. is_not .. ' currently running: ' .. state
  elseif owner ~= worker or since and since ~= time then
    local taken = ({
      Fail = ' running with', Heartbeat = ' given out to', Retry = ' has been given to',
    })[area] or ' has been handed out to'
    local again = owner == worker and ', at ' .. tostring(time) or ''
    return 'Job ' .. jid .. taken .. ' another worker: ' .. tostring(owner) .. again
  end
end

local function must_own(area, jid, queue, owner, state, worker, time, since)
  local problem = not_owned(area, jid, owner, state, worker, time, since)
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

-- The lock time of a queue for a job with the options stored, or false.
local function lock_time_of(queue, stored)
  local seconds
  if stored then
    seconds = own_lock_time(stored)
  end
  if not seconds then
    seconds = heartbeat_of(queue)
  end
  return seconds
end
