-- rates: what workers have counted in some minutes, as lib/rates.lua has it.
--
-- KEYS[1]  the namespace prefix
-- ARGV     NOW, first, minutes [, queue [, klass]]
--          first    a time in the first minute
--          minutes  how many, at most 60
--          queue    only that one, unless it is ''
--          klass    only that one, unless it is ''
-- Returns  an array with, for each minute that has any: its time, as text, and an array of fields and
--          values
-- Errors   Rates()
-- Cost     1 command, 1 for each minute that has begun
-- Repeat   safe
-- Needs    hget hgetall time

local call = redis.call
local prefix = KEYS[1]
local try = redis.pcall


local stamp, usual = ARGV[1], true
if stamp == '' then
  local time = call('time')
  stamp = time[1] .. string.format('.%06d', time[2])
else
  usual = stamp and string.find(stamp, '^%d+%.?%d*$')
end
local now = usual and stamp + 0 or tonumber(stamp)
if not now or now - now ~= 0 then
  error('Arg "now" missing or not a number: ' .. tostring(stamp))
end
if not usual then
  stamp = string.format('%.17g', now)
end


local first
do
  local area, name, text = 'Rates', 'first', ARGV[2]
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
  first = n
end
local minutes
do
  local area, name, text = 'Rates', 'minutes', ARGV[3]
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
  minutes = amount + 0
end
local queue, klass = ARGV[4] or '', ARGV[5] or ''
if minutes > 60 then
  do
    local area, message = 'Rates', 'More than 60 minutes'
    error(area .. '(): ' .. message)
  end
end
local head, tail = (#queue .. ':' .. queue .. ':'), ':' .. klass
local function is_wanted(field)
  if queue ~= '' then
    return string.sub(field, 1, #head) == head
  elseif string.sub(field, -#tail) ~= tail then
    return false
  end
  local length = tonumber(string.match(field, '^(%d+):'))
  return length and string.sub(field, #tostring(length) + length + 2) == tail
end
local found = {}
local from = first - first % 60
for at = from, math.min(from + 60 * (minutes - 1), now), 60 do
  local values
  repeat
    local key = prefix .. 'x:rates:' .. string.format('%d', at - at % 60)
    if queue ~= '' and klass ~= '' then
      local value = try('hget', key, (#queue .. ':' .. queue .. ':' .. klass))
      values = type(value) == 'string' and {(#queue .. ':' .. queue .. ':' .. klass), value} or {}
      break
    end
    local all, found = try('hgetall', key), {}
    if queue == '' and klass == '' then
      values = all
      break
    end
    for i = 1, #all, 2 do
      if is_wanted(all[i]) then
        found[#found + 1], found[#found + 2] = all[i], all[i + 1]
      end
    end
    values = found
  until true
  if #values > 0 then
    found[#found + 1] = string.format('%d', at)
    found[#found + 1] = values
  end
end
return found

