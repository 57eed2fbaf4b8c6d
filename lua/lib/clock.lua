-- The time of the call as text. See prologue.lua.

-- Returns a number as text: format once, use often. cjson would keep only 14 digits.
local function exact(n)
  return string.format('%.17g', n)
end

-- Returns the time after some seconds as text. For whole seconds, keeps the decimals of stamp,
-- because formatting a fraction is expensive.
local function later(seconds)
  if seconds % 1 == 0 and #stamp == 17 and string.sub(stamp, 11, 11) == '.' then
    local digits, decimals = string.format('%d', now + seconds), string.sub(stamp, 11)
    if #digits == 10 and decimals ~= '.000000' then
      return digits .. decimals
    end
  end
  return exact(now + seconds)
end
