-- Dependencies: a job waits in its queue's "depends" until all its parents are complete.

-- An open batch also waits for this jid. No job has it, so it is never complete.
local OPEN = 'x:open'

-- Returns the problem of a job that does not wait for others. qless-core has the same text for a
-- missing job.
local function not_depending(jid, state) -- cold
  if not state and not classic then
    return no_job(jid)
  end
  return new_problem('not_depending', jid, is('not in the depends state: ' .. tostring(state)))
end

-- Returns the jobs in the list, from first on, that a job must wait for: existing jobs, and jobs
-- put earlier by this call, unless complete. On a problem with one, returns nil and the problem.
local function needed(jid, list, first, before, strict) -- cold
  local others = {}
  for i = first, #list do
    local other = list[i]
    local state = other == OPEN and 'open' or before[other] or try('hget', job_key(other), 'state')
    if type(state) == 'table' then
      return nil, new_problem('server', other, 'can not be read: ' .. state.err)
    elseif state and state ~= 'complete' and other ~= jid then
      others[#others + 1] = other
    elseif strict and not state then
      return nil, no_job(other)
    end
  end
  return others
end

-- Makes a job wait for others. If a write fails, undoes all, and returns the write and its error.
local function link(jid, others, added) -- cold
  for i = 1, 2 * #others do
    local other = others[math.ceil(i / 2)]
    local key, member = job_key(other) .. '-dependents', jid
    if i % 2 == 0 then
      key, member = job_key(jid) .. '-dependencies', other
    end
    local reply = try('sadd', key, member)
    if reply == 1 then
      added[#added + 1] = {key, member}
    elseif reply ~= 0 then
      for j = 1, #added do
        call('srem', added[j][1], added[j][2])
      end
      return {key = key, member = member, err = reply.err}
    end
  end
end

-- Removes one dependency, on both sides.
local function undepend(jid, other)
  try('srem', job_key(other) .. '-dependents', jid)
  try('srem', job_key(jid) .. '-dependencies', other)
end

-- Stores a waiting job's delay for its release. The delay of an earlier put stays in the job, but
-- is ignored if a missing delay means none.
local function keep_delay(key, delay, means_none) -- cold
  if delay > 0 then
    call('hset', key, 'scheduled', exact(now + delay))
    call('hdel', key, 'x:undelayed')
  elseif means_none and call('hexists', key, 'scheduled') == 1 then
    call('hset', key, 'x:undelayed', '1')
  end
end

-- Moves a job without remaining dependencies into work. A job put with a delay, and released by its
-- last dependency, is scheduled for the rest of the delay. Returns the problem, or nil.
local function free(jid, released) -- cold
  local key = job_key(jid)
  local queue, priority, score, undelayed, stored = unpack(try('hmget', key, 'queue', 'priority',
    'scheduled', 'x:undelayed', 'x:o'))
  if not queue then
    return
  end
  local due = released and not undelayed and finite(score)
  local state, place = 'scheduled', queue_key(queue, 'scheduled')
  if not due then
    state, place, score = 'waiting', queue_key(queue, 'work'), score_of(queue, priority, stored, {})
  end
  local reply = try('zadd', place, score, jid)
  if type(reply) == 'table' then
    return reply
  end
  try('zrem', queue_key(queue, 'depends'), jid)
  call('hset', key, 'state', state)
  if due then
    call('hdel', key, 'scheduled')
  end
  if undelayed then
    call('hdel', key, 'x:undelayed')
  end
  note_filled(queue)
  wake_for(queue, due and due - now or 0)
end
