-- Promotion of scheduled jobs to run now. A parked job only becomes due: the next pop tries it, and
-- parks it again if necessary.

-- Reads jobs to promote, leaving out any that are not scheduled. Returns the scheduled jobs, and
-- the number of jobs that may already be popped.
local function read_scheduled(jids) -- cold
  local jobs, ready = {}, 0
  for i = 1, #jids do
    local jid = jids[i]
    local job = named_fields(try, job_key(jid), {
      'state', 'queue', 'priority', 'x:o', 'x:parked', 'time',
    })
    local state, queue = job.state, job.queue
    if not state or not queue then
      leave_out(jid, job.err and 'server' or 'not_found', job.err or 'no such job')
    elseif state == 'waiting' then
      ready = ready + 1
    elseif state ~= 'scheduled' then
      leave_out(jid, state == 'running' and 'running' or 'not_scheduled', 'the job is ' .. state)
    else
      jobs[#jobs + 1] = {
        jid = jid, queue = queue, priority = job.priority, stored = job['x:o'],
        parked = parked_by(state, job.time, job['x:parked']),
      }
    end
  end
  return jobs, ready
end

-- Allows jobs of a queue to be popped now.
local function release_scheduled(jobs) -- cold
  local queue = jobs[1].queue
  local work, moved, due, turns = {}, {}, {}, {}
  for i = 1, #jobs do
    local job = jobs[i]
    if job.parked then
      add_pair(due, stamp, job.jid)
    else
      add_pair(work, score_of(queue, job.priority, job.stored, turns), job.jid)
      moved[#moved + 1] = job.jid
    end
  end
  each_slice(call, 'zadd', queue_key(queue, 'work'), work)
  each_slice(call, 'zadd', queue_key(queue, 'scheduled'), due)
  each_slice(call, 'zrem', queue_key(queue, 'scheduled'), moved)
  for i = 1, #moved do
    call('hset', job_key(moved[i]), 'state', 'waiting')
  end
  note_filled(queue)
  wake(queue)
end

-- Promotes jobs. Returns the number of jobs that may be popped now.
local function promote(jids) -- cold
  must_publish()
  local jobs, ready = read_scheduled(jids)
  local groups = group_by_queue(jobs)
  for g = 1, #groups do
    call('zcard', queue_key(groups[g][1].queue, 'work')) -- fails before the first write
    call('zcard', queue_key(groups[g][1].queue, 'scheduled'))
  end
  for g = 1, #groups do
    release_scheduled(groups[g])
  end
  return ready + #jobs
end
