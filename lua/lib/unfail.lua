-- Putting failed jobs back into queues, with fresh retries.

-- @include "lib/base.lua"
-- @include "lib/bulk.lua"
-- @include "lib/clock.lua"
-- @include "lib/failures.lua"
-- @include "lib/history.lua"
-- @include "lib/json.lua"
-- @include "lib/lifetimes.lua"
-- @include "lib/options.lua"
-- @include "lib/settings.lua"
-- @include "lib/unique.lua"
-- @include "lib/wake.lua"
-- @include "lib/work.lua"

-- Reads a job that goes into a queue, or into its own if that is nil. Returns nil if the job is
-- gone.
local function read_failed(jid, queue)
  local job = try('hmget', job_key(jid), 'queue', 'priority', 'retries', 'failure', 'history',
    'x:o')
  if job[1] then
    return {
      jid = jid, from = job[1], to = queue or job[1],
      priority = job[2], retries = job[3], failure = job[4], history = job[5], stored = job[6],
    }
  end
end

-- Puts the jobs into the work of their queues, all or none. Returns the queues.
local function add_work(jobs)
  local queues, work = {}, {}
  for i = 1, #jobs do
    local job = jobs[i]
    local its = work[job.to]
    if not its then
      its = {}
      work[job.to] = its
      queues[#queues + 1] = job.to
    end
    its[#its + 1] = work_score(now, job.priority)
    its[#its + 1] = job.jid
  end
  for i = 2, #queues do
    call('zcard', queue_key(queues[i], 'work')) -- fails unless jobs can be added there
  end
  -- The first write is the one that may fail.
  for i = 1, #queues do
    each_slice(call, 'zadd', queue_key(queues[i], 'work'), work[queues[i]])
  end
  return queues
end

-- Makes the options of a job hold again, but for the times by which it should have been done.
local function restore(job) -- cold
  local claim = claim_again(job.jid, job.stored)
  if claim then
    write_claim(job.jid, claim)
  end
  if has_lifetime(job.stored) then
    write_options(job_key(job.jid), job.stored, {drop = 'st'})
    note_life(job.jid)
  end
end

-- Puts failed jobs into queues. The caller removes them from their groups.
local function unfail(jobs)
  local queues, jids = add_work(jobs), {}
  for i = 1, #jobs do
    local job = jobs[i]
    local key = job_key(job.jid)
    jids[i] = job.jid
    adopt_history(job.jid, job.history)
    record(key, entry(now, '"put"', cjson.encode({q = job.to})))
    uncount_failure(job.from, list_of(job.failure))
    call('hset', key, 'state', 'waiting', 'worker', '', 'expires', '0',
      'queue', job.to, 'remaining', job.retries or DEFAULT_RETRIES)
    if job.stored then
      restore(job)
    end
  end
  unfile_failures(jids)
  for i = 1, #queues do
    know_unlisted(queues[i])
    note_filled(queues[i])
    wake(queues[i])
  end
end

-- Puts at most count jobs of a group, oldest first, into a queue, or each into its own if that is
-- nil. Returns how many left the group.
local function unfail_group(group, count, queue)
  if count == 0 then
    return 0
  end
  local key = prefix .. 'f:' .. group
  local jids, jobs = call('lrange', key, -count, -1), {}
  for i = 1, #jids do
    jobs[#jobs + 1] = read_failed(jids[i], queue)
  end
  unfail(jobs)
  call('ltrim', key, 0, -count - 1)
  drop_empty_group(group)
  return #jids
end
