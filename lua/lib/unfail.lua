-- Unfailing: failed jobs return to queues, with fresh retries.

-- Reads a job to put into a queue, or into its own if nil. Returns nil if the job is gone.
local function read_failed(jid, queue)
  local job = named_fields(try, job_key(jid), {
    'queue', 'priority', 'retries', 'failure', 'history', 'x:o', 'state',
  })
  if job.queue then
    job.jid, job.from, job.stored = jid, job.queue, job['x:o']
    job.queue = queue or job.queue
    return job
  end
end

-- Returns scores of jobs to add to a queue's work, with their jids. Jobs of tenants take turns, the
-- oldest failure first: the last job.
local function scores_of(queue, jobs) -- cold
  local work, turns = {}, {}
  for i = #jobs, 1, -1 do
    local job = jobs[i]
    work[#work + 1] = job.stored and has_option(job.stored, FAIR)
      and fair_score(queue, job.priority, job.stored, turns)
      or work_score(now + (job.after or 0) * 0.000001, job.priority)
    work[#work + 1] = job.jid
  end
  return work
end

-- Puts all jobs or none into the work of their queues. Returns the jobs by queue.
local function add_work(jobs)
  local groups = group_by_queue(jobs)
  for g = 2, #groups do
    call('zcard', queue_key(groups[g][1].queue, 'work')) -- fails unless jobs can be added there
  end
  -- Only the first write may fail.
  for g = 1, #groups do
    local queue = groups[g][1].queue
    each_slice(call, 'zadd', queue_key(queue, 'work'), scores_of(queue, groups[g]))
  end
  return groups
end

-- Reads the values to set from the pairs ARGV[first] to ARGV[last]: retries, and ttl in seconds.
local function read_gift(area, first, last)
  local given = options(area, first, last)
  if given.retries then
    given.retries = string.format('%d', whole(area, 'retries', given.retries))
  end
  local seconds = given.ttl and number(area, 'ttl', given.ttl)
  if seconds then
    local text = 't|{"t":' .. exact(seconds) .. '}'
    given.o, given.ends = read_lifetimes(area, text, 0), now + seconds
  end
  return given
end

-- Makes a job's options apply again, except for its times to expire, with a new one if given.
local function restore(job, given) -- cold
  local stored = job.stored or ''
  local claim = claim_again(job.jid, stored)
  if claim then
    write_claim(job.jid, claim)
  end
  if given.o or has_any(stored, START_BY .. TTL .. KEEP .. KEEP_FAILED .. CALLS) then
    local text = merge_options(stored, {o = given.o, drop = EXPIRING .. CALLS})
    write_options(job_key(job.jid), text)
    note_life(job.jid, given.ends)
  end
end

-- Puts failed jobs into queues, with the given values (read_gift). Among jobs with the same unique
-- key, the oldest failure, the last job, holds the key again. The caller must remove the jobs from
-- their groups. For each queue, publishes the number of jobs, the jid of a single job, and the
-- group of the first job.
local function unfail(jobs, given)
  local groups = add_work(jobs)
  for i = #jobs, 1, -1 do
    local job = jobs[i]
    local key = job_key(job.jid)
    adopt_history(job.jid, job.history)
    record(key, entry(now, '"put"', cjson.encode({q = job.queue})))
    uncount_failure(job.from, list_of(job.failure))
    call('hset', key, 'state', 'waiting', 'worker', '', 'expires', '0',
      'queue', job.queue, 'remaining', given.retries or job.retries or DEFAULT_RETRIES)
    if given.retries then
      call('hset', key, 'retries', given.retries)
    end
    if job.stored or given.o then
      restore(job, given)
    end
  end
  unfile_failures(jids_of(jobs))
  for _, group in ipairs(groups) do
    local job = group[1]
    know_unlisted(job.queue)
    note_filled(job.queue)
    wake(job.queue)
    publish_more({
      event = 'unfailed', queue = job.queue, count = #group, jid = not group[2] and job.jid or nil,
      group = list_of(job.failure).group,
    })
  end
end

-- Reads jobs to return to their own queues in this order: the last job comes first, as unfail
-- expects. Leaves out jobs that have not failed.
local function read_all_failed(jids) -- cold
  local jobs = {}
  for i = #jids, 1, -1 do
    local job = read_failed(jids[i])
    if not job then
      leave_out(jids[i], 'not_found', 'no such job')
    elseif job.state ~= 'failed' then
      leave_out(jids[i], 'not_failed', 'the job is ' .. tostring(job.state))
    else
      jobs[#jobs + 1] = job
    end
  end
  return jobs
end
