-- The priority of a job.

-- The score that a priority gives to a job with options where it waits: its next turn, if it takes
-- turns. job is as in set_priority.
local function score_by_options(job, priority) -- cold
  if has_option(job['x:o'], FAIR) and (job.state == 'waiting' or job['x:parked']) then
    return fair_score(job.queue, priority, job['x:o'], {})
  end
end

-- Updates the other places of a waiting job with options after it has got a new score: job is as
-- below.
local function follow_priority(jid, job, score) -- cold
  if job['x:parked'] then
    move_parked(jid, job['x:parked'], score)
  elseif has_option(job['x:o'], FAIR) and job.state == 'waiting' then
    leave_turns(job.queue, job.priority)
  end
end

-- The fields of a job that set_priority needs.
local PRIORITY_FIELDS = {'queue', 'state', 'x:o', 'x:parked', 'priority'}

-- Changes the priority of a job with these fields, which is in a queue, and its place when it
-- waits.
local function set_priority(run, jid, job, priority)
  local queue, score = job.queue, job['x:o'] and score_by_options(job, priority) or priority
  if queue == '' then
    must_write() -- a complete job has no place whose change would be the first write
  else
    local moved = run('zadd', queue_key(queue, 'work'), 'XX', score, jid)
    if type(moved) == 'table' then
      return moved.err
    end
  end
  try('hset', job_key(jid), 'priority', priority)
  if job['x:o'] then
    follow_priority(jid, job, score)
  end
end
