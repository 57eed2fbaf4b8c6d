-- The time of this call.
--
-- ARGV[1]  NOW in seconds, a float; empty to use the server's own clock

-- @include "lib/base.lua"

-- stamp is the time as text, stored as it was given; now is its value.
local stamp, usual = ARGV[1], true
if stamp == '' then
  local time = call('time')
  stamp = time[1] .. string.format('.%06d', time[2])
else
  usual = stamp and string.find(stamp, '^%d+%.?%d*$')
end
local now = usual and stamp + 0 or tonumber(stamp) -- tonumber reads a text twice
if not now or now - now ~= 0 then
  error('Arg "now" missing or not a number: ' .. tostring(stamp))
end
if not usual then
  stamp = string.format('%.17g', now)
end

-- A number as text without loss of precision, to format once and use often.
local function exact(n)
  return string.format('%.17g', n)
end

-- The time in some seconds, as text. If these are whole, it has the decimals of stamp, because
-- formatting a fraction is expensive.
local function later(seconds)
  if seconds % 1 == 0 and #stamp == 17 and string.sub(stamp, 11, 11) == '.' then
    local digits, decimals = string.format('%d', now + seconds), string.sub(stamp, 11)
    if #digits == 10 and decimals ~= '.000000' then
      return digits .. decimals
    end
  end
  return exact(now + seconds)
end
