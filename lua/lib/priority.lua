-- The priority of a job.

-- @include "lib/base.lua"

-- Changes the priority of a job that is in a queue and has a state, and its place when it waits.
local function set_priority(run, jid, queue, state, priority)
  if queue ~= '' then
    local moved = run('zadd', queue_key(queue, 'work'), 'XX', priority, jid)
    if type(moved) == 'table' then
      return moved.err
    end
  end
  call('hset', job_key(jid), 'priority', priority)
  if state == 'stalled' then
    -- The grace period of its last lock: with its new score it no longer counts as timed out.
    call('hdel', job_key(jid), 'grace')
  end
end
