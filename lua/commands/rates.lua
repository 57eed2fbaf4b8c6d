-- rates: the counts of workers by minute, in the format of lib/rates.lua.
--
-- Args     first, minutes [, queue [, klass]]
--          first    a time in the first minute
--          minutes  at most 60
--          queue    only this queue, unless ''
--          klass    only this klass, unless ''
-- Returns  an array with, for each minute that has any: its time, as text, and an array of fields
--          and values
-- Errors   Rates()
-- Cost     1 command, 1 for each minute that has begun
-- For      Go
-- Repeat   safe

local first = number('Rates', 'first', ARGV[3])
local minutes = whole('Rates', 'minutes', ARGV[4])
local queue, klass = ARGV[5] or '', ARGV[6] or ''
if minutes > 60 then
  reject('Rates', 'More than 60 minutes')
end

local head, tail = rate_field(queue, ''), ':' .. klass

-- Whether a field is wanted. The suffix of most unwanted fields is enough to tell.
local function is_wanted(field)
  if queue ~= '' then
    return string.sub(field, 1, #head) == head
  elseif string.sub(field, -#tail) ~= tail then
    return false
  end
  local length = tonumber(string.match(field, '^(%d+):'))
  return length and string.sub(field, #tostring(length) + length + 2) == tail
end

-- The wanted fields and values of a minute.
local function values_of(key)
  if queue ~= '' and klass ~= '' then
    local value = try('hget', key, rate_field(queue, klass))
    return type(value) == 'string' and {rate_field(queue, klass), value} or {}
  end
  local all, found = try('hgetall', key), {}
  if queue == '' and klass == '' then
    return all
  end
  for i = 1, #all, 2 do
    if is_wanted(all[i]) then
      add_pair(found, all[i], all[i + 1])
    end
  end
  return found
end

local found = {}
local from = first - first % 60
for at = from, math.min(from + 60 * (minutes - 1), now), 60 do
  local values = values_of(rates_key(at))
  if #values > 0 then
    add_pair(found, string.format('%d', at), values)
  end
end
return found
