-- Failure groups: jobs that failed for the same reason, newest first.

-- Adds a job to a group. Returns the server's error, or nil.
local function add_failure(jid, group)
  local reply = try('lpush', prefix .. 'f:' .. group, jid)
  if type(reply) == 'table' then
    must_write() -- as in add_first
    reply = try('lpush', prefix .. 'f:' .. group, jid)
  end
  if type(reply) == 'table' then
    return reply
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

-- Subtracts one failed job from the statistics of its queue, on the day of the failure.
local function uncount_failure(queue, failure)
  local at = finite(failure.when)
  if at and queue then
    tally(day_of(at), queue, 'failed', -1)
  end
end

-- Returns the time at which the job at a place in a group failed, or 0.
local function failed_at(key, place) -- cold
  local jid = try('lindex', key, place)
  local failure = type(jid) == 'string' and try('hget', job_key(jid), 'failure')
  return finite(list_of(failure).when, 0)
end

-- The size from which on a group is long.
local LONG_GROUP = 10000

-- Protects jobs that are no longer failed from being deleted as old failed jobs.
local function unfile_failures(jids)
  each_slice(try, 'zrem', prefix .. 'failed-jobs-list', jids)
end

-- Removes a job from its failure group and the statistics when it is moved or canceled. queue and
-- failure are the job's fields.
local function forget_failure(jid, queue, failure)
  local details = list_of(failure)
  leave_group(jid, details)
  uncount_failure(queue, details)
  unfile_failures({jid})
end

-- Returns the failure field of a failed job.
local function failure_json(group, message, when, worker)
  return cjson.encode({group = group, message = message, when = when, worker = worker})
end

-- Fails a job without retries left in a queue. The caller has added the job to its failure group.
local function mark_exhausted(jid, queue, group, failure, cap)
  record(job_key(jid), entry(now, '"failed"', cjson.encode({group = group})), cap)
  call('hset', job_key(jid), 'state', 'failed', 'worker', '', 'expires', '', 'failure', failure)
  tally_failure(queue)
  publish_tracked('failed', jid)
end
