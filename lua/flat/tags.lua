-- tags: the tags that at least one job has. For clients in PHP.
--
-- KEYS[1]  the namespace prefix
-- ARGV     NOW, offset, count
-- Returns  a JSON array
-- Errors   Tags()
-- Cost     1 command
-- Repeat   safe
-- Needs    zrangebyscore

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
  return amount + 0
end




local offset = whole('Tags', 'offset', ARGV[2])
local count = whole('Tags', 'count', ARGV[3])
if count == 0 then
  do
    local area, message = 'Tags', 'Arg "count" is 0'
    error(area .. '(): ' .. message)
  end
end
do
  local list = call('zrangebyscore', prefix .. 'tags', '(0', '+inf', 'LIMIT', offset, count)
  if #list == 0 then
    return '[]'
  end
  return cjson.encode(list)
end

