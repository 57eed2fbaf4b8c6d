-- Commands over many members, in slices that fit Lua's stack.

-- @include "lib/base.lua"

-- Whether there is any of these keys.
local function any_exists(keys)
  for from = 1, #keys, 1000 do
    if call('exists', unpack(keys, from, math.min(from + 999, #keys))) > 0 then
      return true
    end
  end
  return false
end

-- Runs OPERATION KEY with list[from..to] for its arguments, an even number of them at a time.
local function each_slice(operation, key, list)
  for from = 1, #list, 1000 do
    call(operation, key, unpack(list, from, math.min(from + 999, #list)))
  end
end
