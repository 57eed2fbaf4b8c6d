-- limit.list: the names of the limits that have a definition, in their order.
--
-- KEYS[1]  the namespace prefix
-- ARGV     NOW, offset, count
-- Returns  an array: how many there are, and for count of them from offset on, the name and the
--          definition: concurrency, rate and per, separated by spaces
-- Errors   Limits()
-- Cost     1 command; all definitions are read
-- Repeat   safe
-- Needs    hgetall

local call = redis.call
local prefix = KEYS[1]

local function whole(area, name, text)
  local amount
  do
    local area, name, text = area, name, text
    local value
    do
      local area, name, text = area, name, text
      local n = tonumber(text)
      if not n or n - n ~= 0 then
        local words = {
          Failed = 'is not', Peek = 'missing or not', Pop = 'missing or not',
          Priority = 'missing or not', Stats = 'missing or not',
        }
        do
          local area, message = area, 'Arg "' .. name .. '" ' .. (words[area] or 'not') .. ' a number: ' .. tostring(text)
          error(area .. '(): ' .. message)
        end
      end
      value = n
    end
    if value % 1 ~= 0 or math.abs(value) > 2147483647 then
      do
        local area, message = area, 'Arg "' .. name .. '" is not a whole number: ' .. text
        error(area .. '(): ' .. message)
      end
    end
    amount = value
  end
  if amount < 0 then
    do
      local area, message = area, 'Arg "' .. name .. '" is negative: ' .. text
      error(area .. '(): ' .. message)
    end
  end
  return amount
end

local offset = whole('Limits', 'offset', ARGV[2] or 0)
local count = whole('Limits', 'count', ARGV[3] or 25)
local stored, all, found = call('hgetall', prefix .. 'x:limits'), {}, {}
for i = 1, #stored, 2 do
  if not string.find(stored[i], ' ', 1, true) then
    found[stored[i]] = stored[i + 1]
    all[#all + 1] = stored[i]
  end
end
table.sort(all)
local reply = {#all}
for i = offset + 1, math.min(offset + count, #all) do
  reply[#reply + 1] = all[i]
  reply[#reply + 1] = found[all[i]]
end
return reply

