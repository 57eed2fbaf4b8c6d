-- schedule.forget: forgets a schedule, unless a follower would register it again.
--
-- Args     id
-- Returns  'forgotten', 'followed' or 'unknown'
-- Errors   Schedule.forget()
-- Cost     4 commands
-- For      Go
-- Repeat   once

local id = required('Schedule.forget', 'id', ARGV[3])
if is_followed(id) then
  return 'followed'
end
local removed = call('zrem', prefix .. 'x:schedule-ids', id)
local known = call('hdel', prefix .. 'x:schedules', id)
call('del', schedule_key(id), follow_key(id))
return removed + known > 0 and 'forgotten' or 'unknown'
