-- The time of the call as text. See prologue.lua.

-- A number as text without loss of precision, to format once and use often. cjson would write only
-- 14 digits.
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
