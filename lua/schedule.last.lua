-- schedule.last: when a schedule was last due. A new one counts as due at the given time, so
-- that its first job is the next.
--
-- KEYS[1]  the namespace prefix
-- ARGV     NOW, id, since
-- Returns  that time, as text
-- Errors   Schedule.last()
-- Cost     2 commands

-- @include "lib/check.lua"
-- @include "lib/base.lua"

local id = required('Schedule.last', 'id', ARGV[2])
local since = number('Schedule.last', 'since', ARGV[3])
call('hsetnx', prefix .. 'x:schedules', id, since)
return call('hget', prefix .. 'x:schedules', id)
