-- The settings of a namespace, and their defaults.

local DEFAULT_HEARTBEAT = 60
local DEFAULT_GRACE_PERIOD = 10
local DEFAULT_STATS_HISTORY = 30
local DEFAULT_HISTOGRAM_HISTORY = 7
local DEFAULT_JOBS_HISTORY_COUNT = 50000
local DEFAULT_JOBS_HISTORY = 604800
local DEFAULT_MAX_JOB_HISTORY = 100
local DEFAULT_MAX_WORKER_AGE = 86400
local DEFAULT_BACKOFF_INITIAL_DELAY = 0
local DEFAULT_BACKOFF_FACTOR = 3

-- The retries of a job put without the option.
local DEFAULT_RETRIES = '5'

-- Returns the duration of a lock in seconds: the queue's own heartbeat, or the namespace's. With 0
-- or less, the lock expires at once.
local function lock_time(own, general)
  local seconds = own and tonumber(own)
  if not seconds or seconds - seconds ~= 0 then
    seconds = general and tonumber(general)
  end
  if not seconds or seconds - seconds ~= 0 then
    seconds = DEFAULT_HEARTBEAT
  end
  return seconds
end

-- The same for workers that keep their locks, and ignore a heartbeat of 0 or less.
local function kept_lock_time(seconds)
  return seconds > 0 and seconds or DEFAULT_HEARTBEAT
end
