-- Failing, retrying and releasing a worker's job.

-- Reads a job held by this worker, in item's queue if item.here is set. If item.anybody is set, any
-- caller may end the job. Returns the problem, or nil.
local function read_owned(area, item, worker)
  local key = job_key(item.jid)
  local job = try('hmget', key, 'worker', 'state', 'time', 'queue', 'priority', 'remaining',
    'history', 'grace', 'x:o', 'x:attempts')
  local problem = job.err and job or not item.anybody and
    not_owned(area, item.jid, job, worker, item.since)
  if problem then
    return problem
  end
  local state, time, queue, priority, remaining, history, grace, stored, attempts = unpack(job, 2)
  if not queue then
    return no_queue(item.jid)
  elseif item.here and item.queue ~= queue then
    return new_problem('wrong_queue', item.jid, is('running in another queue: ' .. queue))
  end
  item.key, item.current, item.priority = key, queue, priority
  item.remaining, item.history, item.grace = math.floor(finite(remaining, 0)), history, grace
  item.stored, item.began, item.attempts = stored, state == 'running' and time, attempts
  if item.result then
    item.ended = result_field('failed', time, item.result)
  end
end

-- Takes a job from its worker and changes some fields. The caller has already written the job's new
-- place, because that write may fail. The text what names the end of the run, if the job ran; a
-- failed job's result is written, too.
local function give_up(item, worker, fields, what)
  try('zrem', queue_key(item.current, 'locks'), item.jid)
  try('zrem', worker_key(worker), item.jid)
  adopt_history(item.jid, item.history)
  if item.grace then
    call('hdel', item.key, 'grace')
  end
  if item.data ~= '' then
    add_pair(fields, 'data', item.data)
  end
  if item.ended and what == 'failed' then
    add_pair(fields, 'x:result', item.ended)
  end
  if item.began then
    add_pair(fields, 'x:attempts', with_attempt(item.attempts, what, item.began, {
      worker = worker, queue = item.current, group = item.group, message = item.message,
      delay = what ~= 'failed' and item.delay,
    }))
  end
  call('hset', item.key, unpack(fields))
  wake_for_slot(item.current)
end

-- Adds a job to a queue: with a delay to the scheduled jobs, otherwise to work with a score.
-- Returns the job's state, or nil and the problem.
local function enqueue(jid, queue, delay, score)
  local state, part = 'waiting', 'work'
  if delay > 0 then
    state, part, score = 'scheduled', 'scheduled', exact(now + delay)
  end
  local reply = add_first(queue_key(queue, part), score, jid)
  if type(reply) == 'table' then
    return nil, reply
  end
  return state
end

-- Fails a job: {jid, data, group, message [, result] [, anybody]}. Returns the problem, or nil.
local function fail(worker, item)
  local problem = read_owned('Fail', item, worker) or add_failure(item.jid, item.group)
  if problem then
    return problem
  end
  local jid, group, message = item.jid, item.group, item.message
  publish('log', cjson.encode({
    jid = jid, event = 'failed', worker = worker, group = group, message = message,
  }))
  publish_tracked('failed', jid)
  local fields = {'state', 'failed', 'worker', '', 'expires', '',
    'failure', failure_json(group, message, math.floor(now), worker)}
  give_up(item, worker, fields, 'failed')
  leave_queue(item.current, jid)
  local cap, keep = read_failing()
  record(item.key, entry(now, '"failed"', cjson.encode({worker = worker, group = group})), cap)
  tally_failure(item.current)
  settle_failure(jid, group, item.stored, keep)
end

-- Fails a job without retries left. Returns the problem, or nil.
local function exhaust(worker, item, queue, group, failure) -- cold
  group = group or 'failed-retries-' .. queue
  local message = failure and item.message or
    'Job exhausted retries in queue "' .. item.current .. '"'
  failure = failure or failure_json(group, message, now, '')
  local problem = add_failure(item.jid, group)
  if problem then
    return problem
  end
  item.group, item.message = group, message
  give_up(item, worker, {'remaining', item.remaining}, 'failed')
  local cap, keep = read_failing()
  mark_exhausted(item.jid, queue, group, failure, cap)
  publish_more({
    event = 'failed', jid = item.jid, queue = item.current, worker = worker, group = group,
    message = message,
  })
  settle_failure(item.jid, group, item.stored, keep)
end

-- Requeues a job: {jid, queue, data, delay [, group, message] [, result]}. Sets its remaining
-- retries. Without any left, the job fails with the result. Returns the problem, or nil.
local function retry(worker, item)
  local problem = read_owned('Retry', item, worker)
  if problem then
    return problem
  end
  local queue, group, message = item.queue, item.group, item.message
  item.remaining = item.remaining - 1
  local failure = group and message and failure_json(group, message, math.floor(now), worker)
  if item.remaining < 0 then
    return exhaust(worker, item, queue, group, failure)
  end
  local state, refusal = enqueue(item.jid, queue, item.delay, work_score(now, item.priority))
  if refusal then
    return refusal
  end
  local fields = {'remaining', item.remaining, 'state', state}
  if failure then
    fields[5], fields[6] = 'failure', failure
  end
  give_up(item, worker, fields, 'retried')
  if queue ~= item.current then
    know_unlisted(queue)
    note_filled(queue) -- item.current had a lock, so it was not empty
  end
  wake_for(queue, item.delay)
  if item.stored then
    stop_limited(item.jid, item.stored)
  end
end

-- Requeues a job without using up a retry: {jid, data, delay [, place] [, throttled]}. Without a
-- delay, the job is the first of its priority again, after jobs with a smaller place. throttled
-- lists limits of the job to hold for the delay, or all if empty. The job then waits for these
-- limits, or for the delay if it has none of them. Returns the problem, or nil.
local function release(worker, item)
  local problem, state = read_owned('Release', item, worker)
  local waits = item.delay
  if not problem then
    if item.throttled and item.stored and throttle(item.stored, item.throttled, waits) then
      waits = 0
    end
    -- A thousand places must precede all jobs that were put.
    local score = finite(item.priority, 0) - (item.place or 0) / 1000000
    state, problem = enqueue(item.jid, item.current, waits, score)
  end
  if problem then
    return problem
  end
  give_up(item, worker, {'state', state, 'worker', '', 'expires', '0'}, 'released')
  wake_for(item.current, waits)
  if item.stored then
    stop_limited(item.jid, item.stored)
  end
end
