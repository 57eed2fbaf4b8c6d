-- The priority of a job.

-- Returns the score from a priority for a job with options: its next turn, if it waits and takes
-- turns, or nil. job is as in set_priority.
local function score_by_options(job, priority) -- cold
  if has_option(job['x:o'], FAIR) and (job.state == 'waiting' or job['x:parked']) then
    return fair_score(job.queue, priority, job['x:o'], {})
  end
end

-- Updates the other places of a waiting job with options, after a new score. job is as below.
local function follow_priority(jid, job, score) -- cold
  if job['x:parked'] then
    move_parked(jid, job['x:parked'], score)
  elseif has_option(job['x:o'], FAIR) and job.state == 'waiting' then
    leave_turns(job.queue, job.priority)
  end
end

-- The fields of a job needed by set_priority.
local PRIORITY_FIELDS = {'queue', 'state', 'x:o', 'x:parked', 'priority'}

-- Changes the priority of a job with these fields in a queue, and its place if waiting. Returns the
-- error, or nil.
local function set_priority(run, jid, job, priority)
  local queue, score = job.queue, job['x:o'] and score_by_options(job, priority) or priority
  if queue == '' then
    must_write() -- for a complete job, there is no place to write first
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
