-- Failure groups: the jobs that failed for the same reason, newest first.

-- @include "lib/base.lua"
-- @include "lib/bulk.lua"
-- @include "lib/clock.lua"
-- @include "lib/events.lua"
-- @include "lib/history.lua"
-- @include "lib/json.lua"
-- @include "lib/stats.lua"

-- Adds a job to a group. Returns the server's error if that fails.
local function add_failure(jid, group)
  local reply = write_first('lpush', prefix .. 'f:' .. group, jid)
  if type(reply) == 'table' then
    return reply.err
  end
  try('sadd', prefix .. 'failures', group)
end

local function drop_empty_group(group)
  if call('exists', prefix .. 'f:' .. group) == 0 then
    try('srem', prefix .. 'failures', group)
  end
end

-- Counts one more failed job today.
local function tally_failure(queue)
  tally(day_of(now), queue, 'failures', 1)
  tally(day_of(now), queue, 'failed', 1)
end

-- Counts one failed job less, in the statistics of the queue and the day of its failure.
local function uncount_failure(queue, failure)
  local at = finite(failure.when)
  if at and queue then
    tally(day_of(at), queue, 'failed', -1)
  end
end

-- Takes a job out of its failure group. failure is the job's decoded field. An old failure is found
-- sooner when count is -1, which searches from the end.
local function leave_group(jid, failure, count)
  if type(failure.group) == 'string' then
    try('lrem', prefix .. 'f:' .. failure.group, count or 0, jid)
    drop_empty_group(failure.group)
  end
end

-- Keeps jobs that have not failed any more from being deleted as old failed ones.
local function unfile_failures(jids)
  each_slice(try, 'zrem', prefix .. 'failed-jobs-list', jids)
end

-- Takes a failed job that is moved or canceled out of its failure group and the statistics. queue
-- and failure are the job's fields, and count is as above.
local function forget_failure(jid, queue, failure, count)
  local details = list_of(failure)
  leave_group(jid, details, count)
  uncount_failure(queue, details)
  unfile_failures({jid})
end

-- The failure field of a failed job.
local function failure_json(group, message, when, worker)
  return cjson.encode({group = group, message = message, when = when, worker = worker})
end

-- Fails a job that has no retries left in a queue. The caller has added it to its failure group.
local function mark_exhausted(jid, queue, group, failure, cap)
  record(job_key(jid), entry(now, '"failed"', cjson.encode({group = group})), cap)
  call('hset', job_key(jid), 'state', 'failed', 'worker', '', 'expires', '', 'failure', failure)
  tally_failure(queue)
  publish_tracked('failed', jid)
end
