-- Checks that a worker holds the lock of a job to end or renew. Some commands have their own
-- wording, which classic clients rely on.

local function not_running(area, jid, state) -- cold
  if not state then
    return no_job(jid)
  end
  local text = 'not currently running: ' .. state
  local bare = area == 'Fail' or area == 'Heartbeat'
  return new_problem('not_running', jid, bare and is(text) or 'is ' .. text)
end

-- again is the time at which the same worker took the job again.
local function lost_lock(area, jid, owner, again) -- cold
  local taken = ({
    Fail = is('running with'), Heartbeat = is('given out to'), Retry = 'has been given to',
  })[area] or 'has been handed out to'
  return new_problem('lock_lost', jid, taken .. ' another worker: ' .. tostring(owner) ..
    (again and ', at ' .. tostring(again) or ''))
end

-- The places of the fields that are read first, to check a job's worker.
local HELD_BY = 1
local HELD_STATE = 2
local HELD_SINCE = 3

-- Returns the problem if this worker does not hold a job, or nil. The first fields of job must be
-- worker, state and, with since, time. since is the time at which the worker took the job, if
-- known: it may have lost the job and taken it again.
local function not_owned(area, jid, job, worker, since)
  local owner = job[HELD_BY]
  if job[HELD_STATE] ~= 'running' then
    return not_running(area, jid, job[HELD_STATE])
  elseif owner ~= worker or since and since ~= job[HELD_SINCE] then
    return lost_lock(area, jid, owner, owner == worker and job[HELD_SINCE])
  end
end

-- Returns the duration of a lock in a queue, in seconds.
local function heartbeat_of(queue)
  return lock_time(unpack(try('hmget', prefix .. 'config', queue .. '-heartbeat', 'heartbeat')))
end
