-- The retention of failed jobs: the settings jobs-failed-history, in seconds, and
-- jobs-failed-history-count, per failure group. Without these, failed jobs are kept until they are
-- unfailed or canceled. A job with the option K is kept for its own time instead
-- (lib/lifetimes.lua), and a job with dependents is always kept.
--
-- The sorted set failed-jobs-list, known to PHP clients, has the jids of failed jobs by the times
-- of their failures. Jobs missing there, because another script failed them or the settings were
-- unset, are found at the end of their group.

-- The maximum number of old jobs of the list that a call checks, and that a failure deletes.
local MAX_FILED = 100

-- The number of jobs that a failure checks at the end of its group.
local MAX_LAST = 10

-- Returns the settings for the retention of failed jobs, or nil if unset.
local function retention(seconds, count)
  return (seconds or count) and {seconds = finite(seconds, -1), count = finite(count, -1)}
end

-- Reads the settings for failing a job: its history's cap, and the retention of failed jobs.
local function read_failing()
  local cap, seconds, count = unpack(try('hmget', prefix .. 'config', 'max-job-history',
    'jobs-failed-history', 'jobs-failed-history-count'))
  return history_cap(cap), retention(seconds, count)
end

-- Deletes a failed job silently, unless it has dependents or, if not forced, its own time. Returns
-- "deleted", "kept", or "moved" if the job is no longer failed.
local function delete_failed(jid, forced) -- cold
  local key = job_key(jid)
  local state, queue, failure, tags, stored = unpack(
    try('hmget', key, 'state', 'queue', 'failure', 'tags', 'x:o'))
  if state ~= 'failed' then
    return 'moved'
  elseif not forced and has_option(stored or '', KEEP_FAILED) or
    try('exists', key .. '-dependents') == 1 then
    return 'kept'
  end
  failure = list_of(failure)
  leave_group(jid, failure, -1)
  uncount_failure(queue, failure)
  delete_record(jid, tags)
  if has_lifetime(stored or '') then
    note_life(jid)
  end
  return 'deleted'
end

-- Deletes jobs in the list that failed more than some seconds ago. Returns the number deleted.
local function clear_list(seconds) -- cold
  local filed, deleted = prefix .. 'failed-jobs-list', 0
  local old = try('zrangebyscore', filed, '-inf', exact(now - seconds), 'LIMIT', 0, MAX_FILED)
  for i = 1, #old do
    local outcome = delete_failed(old[i])
    if outcome == 'kept' then
      call('zadd', filed, stamp, old[i]) -- kept for another period
    else
      call('zrem', filed, old[i])
      deleted = deleted + (outcome == 'deleted' and 1 or 0)
    end
  end
  return deleted
end

-- Deletes jobs at the end of a group that are too old or too many, checking at most limit jobs.
-- Returns the number deleted.
local function clear_group(group, keep, limit) -- cold
  local key, deleted = prefix .. 'f:' .. group, 0
  local last = try('lrange', key, -limit, -1)
  local excess = keep.count >= 0 and finite(try('llen', key), 0) - keep.count or 0
  for i = #last, 1, -1 do
    local failure = list_of(try('hget', job_key(last[i]), 'failure'))
    -- Failure times are whole seconds.
    local is_old = keep.seconds >= 0 and finite(failure.when, now) + 1 <= now - keep.seconds
    if excess <= 0 and not is_old then
      return deleted
    end
    local outcome = delete_failed(last[i])
    if outcome == 'deleted' then
      unfile_failures({last[i]})
    elseif outcome == 'moved' then
      leave_group(last[i], {group = group}, -1)
    end
    excess = excess - (outcome == 'kept' and 0 or 1)
    deleted = deleted + (outcome == 'deleted' and 1 or 0)
  end
  return deleted
end

-- Files a failed job with these options, and deletes jobs that failed long ago.
local function file_failure(jid, group, keep, stored) -- cold
  local left = MAX_FILED
  if keep.seconds >= 0 then
    if not (stored and has_option(stored, KEEP_FAILED)) then
      try('zadd', prefix .. 'failed-jobs-list', stamp, jid)
    end
    left = left - clear_list(keep.seconds)
  end
  if left > 0 then
    clear_group(group, keep, math.min(left, MAX_LAST))
  end
end
