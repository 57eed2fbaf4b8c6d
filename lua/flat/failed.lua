-- failed: how many jobs failed by group, or the jobs of a group, newest failure first.
--
-- KEYS[1]  the namespace prefix
-- ARGV     NOW, [group [, start, limit]], or '', 0, 0, 'from', the cursor of the last call or ''
-- Returns  JSON {group: count}, or JSON {total, jobs} with jids;
--          from: JSON {cursor, groups} of about 500 groups, and a cursor, which is empty at the end
-- Errors   Failed()
-- Cost     1 command and one a group
-- Repeat   safe
-- Needs    llen lrange smembers sscan

local call = redis.call
local prefix = KEYS[1]

local function required(area, name, text)
  if not text then
    local words = {
      Job = 'no jid provided', Recurring = 'no jid provided', Queue = 'no queue name provided',
    }
    do
      local area, message = area, words[area] or 'Arg "' .. name .. '" missing'
      error(area .. '(): ' .. message)
    end
  end
  return text
end
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

local seldom1

seldom1 = function(which, ...)
if which == 'scan_cursor' then
local area, cursor = ...
local function reject(area, message)
  error(area .. '(): ' .. message)
end
  if cursor == '' then
    return '0'
  elseif not string.find(cursor, '^%d+$') or tonumber(cursor) >= 2 ^ 64 then
    reject(area, 'Arg "cursor" is no cursor: ' .. string.sub(cursor, 1, 200))
  end
  return cursor
elseif which == 'next_part' then
local reply = ...
  return reply[1] == '0' and '' or reply[1]
end
end

local group = ARGV[2]
local start = integer('Failed', 'start', ARGV[3] or 0)
local limit = integer('Failed', 'limit', ARGV[4] or 25)
local function counts_of(groups)
  local counts = {}
  for i = 1, #groups do
    counts[i] = cjson.encode(groups[i]) .. ':' .. call('llen', prefix .. 'f:' .. groups[i])
  end
  return '{' .. table.concat(counts, ',') .. '}'
end
if ARGV[5] == 'from' then
  local cursor = seldom1('scan_cursor', 'Failed', required('Failed', 'cursor', ARGV[6]))
  local found = call('sscan', prefix .. 'failures', cursor, 'COUNT', 500)
  return '{"cursor":' .. cjson.encode(seldom1('next_part', found)) .. ',"groups":' .. counts_of(found[2]) .. '}'
elseif group then
  local key = prefix .. 'f:' .. group
  local jids = call('lrange', key, start, start + limit - 1)
  return '{"total":' .. call('llen', key) .. ',"jobs":' .. array(jids) .. '}'
end
return counts_of(call('smembers', prefix .. 'failures'))

