-- Commands over many members, in slices that fit Lua's stack.

-- @include "lib/base.lua"

-- Runs OPERATION KEY with list[from..to] for its arguments, an even number of them at a time.
local function each_slice(operation, key, list)
  for from = 1, #list, 1000 do
    call(operation, key, unpack(list, from, math.min(from + 999, #list)))
  end
end
