-- Commands with many arguments, in slices that fit Lua's stack.

-- Returns the number of existing keys.
local function count_existing(keys)
  local count = 0
  for from = 1, #keys, 1000 do
    count = count + call('exists', unpack(keys, from, math.min(from + 999, #keys)))
  end
  return count
end

-- Returns a list of the same length, with values to replace: growing a table is expensive.
local function sized(list)
  return list[2] and {unpack(list)} or {false}
end

-- Appends two values, such as a field and its value.
local function add_pair(list, first, second)
  local n = #list
  list[n + 1], list[n + 2] = first, second
end

-- Runs OPERATION KEY with slices of the list as arguments, an even number each time.
local function each_slice(run, operation, key, list)
  for from = 1, #list, 1000 do
    run(operation, key, unpack(list, from, math.min(from + 999, #list)))
  end
end
