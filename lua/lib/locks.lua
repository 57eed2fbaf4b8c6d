-- Locks: a running job belongs to its worker until the lock expires. Then the worker is notified
-- once and gets the grace period, after which the job goes to the next worker that asks.

-- @include "lib/base.lua"
-- @include "lib/bulk.lua"
-- @include "lib/clock.lua"
-- @include "lib/events.lua"
-- @include "lib/failures.lua"
-- @include "lib/history.lua"
-- @include "lib/stats.lua"
-- @include "lib/work.lua"

-- Notifies the worker and gives it the grace period.
local function warn(queue, jid, worker, grace, cap)
  publish_tracked('stalled', jid)
  record(job_key(jid), entry(now, '"timed-out"'), cap)
  call('hset', job_key(jid), 'grace', 1)
  lock_lost(jid, worker)
  call('zadd', queue_key(queue, 'locks'), exact(now + grace), jid)
  tally(day_of(now), queue, 'retries', 1)
end

-- Fails a lost job that has no retries left. own_queue is the queue in the job's hash, which a
-- retry into another queue leaves unchanged.
local function fail_lost(queue, jid, worker, own_queue)
  leave_queue(queue, jid)
  local group = 'failed-retries-' .. (own_queue or queue)
  local message = 'Job exhausted retries in queue "' .. queue .. '"'
  add_failure(jid, group)
  mark_exhausted(jid, queue, group, failure_json(group, message, now, ''))
  publish('log', cjson.encode({
    jid = jid, event = 'failed', group = group, worker = worker, message = message,
  }))
end

-- Handles at most limit expired locks. Returns the jids to hand out.
local function expire(queue, limit, grace, cap)
  local locks = queue_key(queue, 'locks')
  local taken = {}
  for _, jid in ipairs(call('zrangebyscore', locks, '-inf', stamp, 'LIMIT', 0, limit)) do
    local job = try('hmget', job_key(jid), 'worker', 'grace', 'remaining', 'history', 'queue',
      'state')
    local worker, warned, remaining = job[1] or '', tonumber(job[2]) == 1, finite(job[3], 0)
    if not job[1] and not job[6] then
      call('zrem', locks, jid)
    else
      adopt_history(jid, job[4])
      try('zrem', worker_key(worker), jid)
      if grace <= 0 or not warned then
        warn(queue, jid, worker, grace, cap)
      end
      if grace <= 0 or warned then
        remaining = math.floor(remaining) - 1
        call('hset', job_key(jid), 'remaining', remaining)
        call('hdel', job_key(jid), 'grace')
        if remaining < 0 then
          fail_lost(queue, jid, worker, job[5])
        else
          taken[#taken + 1] = jid
        end
      end
    end
  end
  each_slice(call, 'zrem', queue_key(queue, 'work'), taken)
  return taken
end
