-- Dependencies: a job waits in its queue's "depends" until the jobs it needs are complete.

-- @include "lib/clock.lua"
-- @include "lib/work.lua"
-- @include "lib/wake.lua"

-- Makes a job wait for those of the list that exist and are not complete; how many.
local function depend_on(jid, list, first) -- cold
  local count = 0
  for i = first, #list do
    local other = list[i]
    local state = call('hget', job_key(other), 'state')
    if state and state ~= 'complete' and other ~= jid then
      call('sadd', job_key(other) .. '-dependents', jid)
      call('sadd', job_key(jid) .. '-dependencies', other)
      count = count + 1
    end
  end
  return count
end

-- Ends one dependency, from both sides.
local function undepend(jid, other)
  call('srem', job_key(other) .. '-dependents', jid)
  call('srem', job_key(jid) .. '-dependencies', other)
end

-- Moves a job that waits for nothing any more to where it goes next: into work, or, when it
-- was put with a delay and is released by what it waited for, on to the rest of its delay.
local function free(jid, keep_delay) -- cold
  local job = call('hmget', job_key(jid), 'queue', 'priority', 'scheduled')
  local queue, priority, scheduled = job[1], job[2], job[3]
  if not queue then
    return
  end
  call('zrem', queue_key(queue, 'depends'), jid)
  if keep_delay and scheduled then
    call('zadd', queue_key(queue, 'scheduled'), scheduled, jid)
    call('hset', job_key(jid), 'state', 'scheduled')
    call('hdel', job_key(jid), 'scheduled')
  else
    add_work(queue, now, priority, jid)
    call('hset', job_key(jid), 'state', 'waiting')
    wake(queue)
  end
end

local function waits_for_nothing(jid)
  return call('scard', job_key(jid) .. '-dependencies') == 0
end

-- A job is complete: those that waited for it alone go on.
local function release_dependents(jid) -- cold
  local dependents = job_key(jid) .. '-dependents'
  for _, other in ipairs(call('smembers', dependents)) do
    call('srem', job_key(other) .. '-dependencies', jid)
    if waits_for_nothing(other) then
      free(other, true)
    end
  end
  call('del', dependents)
end
