-- Arguments are checked before the first write: what can't be used changes nothing.
--
-- A message begins with the same words whatever the arguments, so that clients can tell
-- errors apart by it.

local function reject(area, message)
  error(area .. '(): ' .. message)
end

local function required(area, name, text)
  if not text or text == '' then
    reject(area, 'Arg "' .. name .. '" missing')
  end
  return text
end

local function number(area, name, text)
  local n = tonumber(text)
  if not n or n - n ~= 0 then
    reject(area, 'Arg "' .. name .. '" missing or not a number: ' .. tostring(text))
  end
  return n
end

-- A count or an offset: a whole number that is not negative.
local function whole(area, name, text)
  local n = number(area, name, text)
  if n < 0 or n % 1 ~= 0 or n > 2147483647 then
    reject(area, 'Arg "' .. name .. '" is not a whole number: ' .. text)
  end
  return n
end

local function json(area, name, text)
  local ok, value = pcall(cjson.decode, text)
  if not ok then
    reject(area, 'Arg "' .. name .. '" missing or not JSON: ' .. string.sub(tostring(text), 1, 200))
  end
  return value
end

-- A JSON array of names, such as tags or jids.
local function names(area, name, text)
  local list = json(area, name, text)
  if type(list) ~= 'table' then
    reject(area, 'Arg "' .. name .. '" is not a JSON array')
  end
  for i = 1, #list do
    if type(list[i]) == 'number' then
      list[i] = tostring(list[i])
    elseif type(list[i]) ~= 'string' then
      reject(area, 'Arg "' .. name .. '" is not a JSON array of strings')
    end
  end
  return list
end

-- The options that follow a command's fixed arguments, in pairs from ARGV[first].
local function options(area, first)
  if (#ARGV - first) % 2 == 0 then
    reject(area, 'Odd number of additional args')
  end
  local pairs_given = {}
  for i = first, #ARGV, 2 do
    pairs_given[ARGV[i]] = ARGV[i + 1]
  end
  return pairs_given
end
