-- The time of this call.
--
-- ARGV[1]  NOW in seconds, a float; empty to use the server's own clock

-- @include "lib/base.lua"

-- stamp is the time as text, stored as it was given; now is its value.
local stamp = ARGV[1]
local now
if stamp == '' then
  local time = call('time')
  stamp = time[1] .. string.format('.%06d', time[2])
  now = tonumber(stamp)
else
  now = tonumber(stamp)
  if not now or now - now ~= 0 then
    error('Arg "now" missing or not a number: ' .. tostring(stamp))
  end
  if not string.find(stamp, '^%d+%.?%d*$') then
    stamp = string.format('%.17g', now)
  end
end

-- A number as text without loss of precision, to format once and use often.
local function exact(n)
  return string.format('%.17g', n)
end
