-- reschedule: changes when a waiting or scheduled job is due, and nothing else.
--
-- Args     jid, seconds
-- Returns  the former state; a job that was neither waiting nor scheduled is left alone. Nil if
--          there is no such job
-- Errors   Job(), Reschedule(), also when the job would expire first
-- Cost     8 commands
-- For      Go
-- Repeat   once

local jid = required('Job', 'jid', ARGV[3])
local delay = not_negative('Reschedule', 'seconds', ARGV[4])
local key = job_key(jid)
local state, queue, priority, stored, parked = unpack(
  call('hmget', key, 'state', 'queue', 'priority', 'x:o', 'x:parked'))
if not state or not queue or state ~= 'waiting' and state ~= 'scheduled' then
  return state
end
local ends = stored and has_lifetime(stored) and end_of_life(jid, stored, 'waiting', now)
if ends and ends <= now + delay then
  reject('Reschedule', 'StartBy or TTL of job ' .. jid .. ' is over before')
end
local work, scheduled = queue_key(queue, 'work'), queue_key(queue, 'scheduled')
call('zcard', work) -- fails before anything is written
call('zcard', scheduled)
must_publish()
if delay > 0 then
  call('zadd', scheduled, exact(now + delay), jid)
  call('zrem', work, jid)
  call('hset', key, 'state', 'scheduled')
  if stored and has_option(stored, FAIR) then
    leave_turns(queue, priority)
  end
else
  call('zadd', work, score_of(queue, priority, stored, {}), jid)
  call('zrem', scheduled, jid)
  call('hset', key, 'state', 'waiting')
end
if parked then -- it waits for its time now, and no more for a limit, whose room the next one gets
  local _, name = score_before(jid)
  if name then
    limit_freed(name)
  end
end
note_filled(queue)
wake_for(queue, delay)
return state
