-- failed: how many jobs failed by group, or the jobs of a group, newest failure first.
--
-- KEYS[1]  the namespace prefix
-- ARGV     NOW, [group [, start, limit]]
-- Returns  JSON {group: count}, or JSON {total, jobs} with jids
-- Errors   Failed()
-- Cost     1 command and one a group
-- Repeat   safe
-- Needs    llen lrange smembers

local call = redis.call
local prefix = KEYS[1]

local function integer(area, name, text)
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
  return value
end



local function array(list)
  if #list == 0 then
    return '[]'
  end
  return cjson.encode(list)
end

local group = ARGV[2]
local start = integer('Failed', 'start', ARGV[3] or 0)
local limit = integer('Failed', 'limit', ARGV[4] or 25)
if group then
  local key = prefix .. 'f:' .. group
  local jids = call('lrange', key, start, start + limit - 1)
  return '{"total":' .. call('llen', key) .. ',"jobs":' .. array(jids) .. '}'
end
local counts = {}
for _, name in ipairs(call('smembers', prefix .. 'failures')) do
  counts[#counts + 1] = cjson.encode(name) .. ':' .. call('llen', prefix .. 'f:' .. name)
end
return '{' .. table.concat(counts, ',') .. '}'

