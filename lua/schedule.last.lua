-- schedule.last: when a schedule was last due, and what time it is. A new schedule counts as due
-- now, so that its first job is the next one.
--
-- KEYS[1]  the namespace prefix
-- ARGV     NOW, id
-- Returns  {last, now}, as text; last is not after now
-- Errors   Schedule.last()
-- Cost     1 command, 1 more for a new schedule
-- Repeat   once
-- Needs    hget hset time

-- @include "lib/base.lua"
-- @include "lib/check.lua"
-- @include "lib/clock.lua"

local id = required('Schedule.last', 'id', ARGV[2])
local key = prefix .. 'x:schedules'
local last = finite(call('hget', key, id))
-- A time much later than now came from a clock that was ahead. If it is only a little later, the
-- server's own clock was set back, and what was put since then must not be put again.
if not last or last > now + 60 then
  call('hset', key, id, stamp)
  last = now
end
return {exact(math.min(last, now)), stamp}
