-- The list of complete jobs. Old jobs are deleted: jobs older than jobs-history, and the oldest
-- beyond jobs-history-count.

-- The maximum number of old jobs that a call deletes: more would stall the server.
local PRUNED = 100

-- Deletes at most limit completed jobs: older than a time, or the excess.
local function prune(before, excess, limit) -- cold
  local completed = prefix .. 'completed'
  local old = call('zrangebyscore', completed, 0, before, 'LIMIT', 0, limit)
  if excess > #old then
    old = call('zrange', completed, 0, math.min(excess, limit) - 1)
  end
  for i = 1, #old do
    local state, tags = unpack(try('hmget', job_key(old[i]), 'state', 'tags'))
    if state == 'complete' then
      delete_record(old[i], tags)
    end
  end
  each_slice(call, 'zrem', completed, old)
end

-- Reports whether a call looks for old jobs. Without settings for retention, a worker's call looks
-- one time in ten, by the last digit of the time.
local function looks_for_old(keep_seconds, keep_count)
  return command ~= 'finish' or keep_seconds or keep_count or #stamp < 17
    or string.byte(stamp, -1) == ZERO
end

-- Deletes old jobs after n jobs were added; added is the server's reply.
local function clear_completed(added, n, keep_seconds, keep_count)
  local completed = prefix .. 'completed'
  if type(added) == 'table' or not looks_for_old(keep_seconds, keep_count) then
    return
  end
  local before = later(-finite(keep_seconds, DEFAULT_JOBS_HISTORY))
  local excess = call('zcard', completed) - finite(keep_count, DEFAULT_JOBS_HISTORY_COUNT)
  if excess > 0 or call('zcount', completed, '0', before) > 0 then
    prune(before, excess, PRUNED + n)
  end
end

-- Adds jobs without a next queue to the list, and deletes old jobs.
local function keep_completed(items, keep_seconds, keep_count)
  local scored = {stamp, items[1].jid, unpack(items, 3)}
  for i = 2, #items do
    scored[2 * i - 1], scored[2 * i] = stamp, items[i].jid
  end
  local added = try('zadd', prefix .. 'completed', unpack(scored))
  clear_completed(added, #items, keep_seconds, keep_count)
end
