-- The priority of a job.

-- The fields of a job needed by set_priority.
local PRIORITY_FIELDS = {'queue', 'state', 'x:o', 'x:parked', 'priority'}

-- Changes the priority, and the place if waiting, of a job with these fields. Returns any error.
local function set_priority(run, jid, job, priority)
  local queue, stored, parked, score = job.queue, job['x:o'], job['x:parked'], priority
  local takes_turns = stored and has_option(stored, FAIR)
  if takes_turns and (job.state == 'waiting' or parked) then
    score = fair_score(queue, priority, stored, {}) or priority
  end
  if queue == '' then
    must_write() -- for a complete job, there is no place to write first
  else
    local moved = run('zadd', queue_key(queue, 'work'), 'XX', score, jid)
    if type(moved) == 'table' then
      return moved.err
    end
  end
  try('hset', job_key(jid), 'priority', priority)
  if stored and parked then
    move_parked(jid, parked, score)
  elseif takes_turns and job.state == 'waiting' then
    leave_turns(queue, job.priority)
  end
end
