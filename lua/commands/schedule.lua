-- schedule: puts the job of a schedule for a due time, unless another client has put it.
--
-- Args     id, due, missed, then the arguments of put: worker, queue, jid, klass, data, delay,
--          pairs
--          missed  the number of earlier due times that get no job
-- Returns  as put does; nil if the schedule has passed that time; 0 if it is not due yet
-- Errors   Schedule(), and those of put
-- Cost     3 commands more than put; 1 more if times were missed
-- For      Go
-- Repeat   once

local id = required('Schedule', 'id', ARGV[3])
local due = number('Schedule', 'due', ARGV[4])
local missed = whole('Schedule', 'missed', ARGV[5])
if due > now then
  return 0
end
local last = finite(call('hget', prefix .. 'x:schedules', id))
-- As in schedule.last, a time much later than now is ignored.
if last and last >= due and last <= now + 60 then
  return nil
end
local reply = put_from_arguments(6)
call('hset', prefix .. 'x:schedules', id, exact(due))
try('hset', schedule_key(id), 'last', exact(due), 'jid', ARGV[8])
if missed > 0 then
  try('hincrby', schedule_key(id), 'missed', string.format('%d', missed))
end
return reply
