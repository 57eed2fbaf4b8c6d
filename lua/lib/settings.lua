-- How long locks last.

-- @include "lib/base.lua"

-- A lock's time in seconds: the queue's own heartbeat, or that of all. One that would end the
-- lock at once counts as not set.
local function lock_time(own, general)
  local seconds = finite(own, 0)
  if seconds <= 0 then
    seconds = finite(general, 0)
  end
  return seconds > 0 and seconds or 60
end
