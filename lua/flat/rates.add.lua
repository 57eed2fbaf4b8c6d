-- rates.add: adds what a worker has counted to the rates of a minute (lib/rates.lua), once.
--
-- KEYS[1]  the namespace prefix
-- ARGV     NOW, run, number, age, then for each queue and klass, at most 1000: queue, klass, counts
--          run     names the sender; x:rates:sent:<run> is the last number that it has sent
--          number  greater than the one before, or the same if that may have been lost
--          age     how many seconds ago it was counted: that is the minute
--          counts  a value, as lib/rates.lua has it
-- Returns  1, or 0 if it was added before, or is too old
-- Errors   Rates.add()
-- Cost     6 commands, 7 for the first of a minute
-- Repeat   safe
-- Needs    expire get hlen hmget hset set time

local call = redis.call
local prefix = KEYS[1]
local try = redis.pcall
local function finite(text, default)
  local n = text and tonumber(text)
  if n and n - n == 0 then
    return n
  end
  return default
end

local function number(area, name, text)
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
  return n
end

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


local run
repeat
  local area, name, text = 'Rates.add', 'run', ARGV[2]
  do
    local area, name, text = area, name, text ~= '' and text
    if not text then
      local words = {
        Job = 'no jid provided', Recurring = 'no jid provided', Queue = 'no queue name provided',
      }
      do
        local area, message = area, words[area] or 'Arg "' .. name .. '" missing'
        error(area .. '(): ' .. message)
      end
    end
    run = text
    break
  end
  run = nil
until true
local sent
do
  local area, name, text = 'Rates.add', 'number', ARGV[3]
  local amount
  do
    local area, name, text = area, name, text
    local value = number(area, name, text)
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
  sent = amount + 0
end
local began = math.min(now - number('Rates.add', 'age', ARGV[4]), now)
if (#ARGV - 4) % 3 ~= 0 then
  do
    local area, message = 'Rates.add', 'Each klass needs 3 args'
    error(area .. '(): ' .. message)
  end
end
if #ARGV > 4 + 3 * 1000 then
  do
    local area, message = 'Rates.add', 'More than 1000 klasses'
    error(area .. '(): ' .. message)
  end
end
local function sum_histograms(one, other)
  local counts, order = {}, {}
  for bucket, count in string.gmatch(one .. ' ' .. other, '(%d+):(%d+)') do
    if not counts[bucket] then
      order[#order + 1] = bucket
    end
    counts[bucket] = (counts[bucket] or 0) + count
  end
  for i = 1, #order do
    order[i] = order[i] .. ':' .. string.format('%d', counts[order[i]])
  end
  return table.concat(order, ' ')
end
local function sum(stored, added)
  local completed, failed, retried, wait, ran = string.match((stored or ''), '^(%d+),(%d+),(%d+)|([%d: ]*)|([%d: ]*)$')
  if not completed then
    return added
  end
  local more = {string.match(added, '^(%d+),(%d+),(%d+)|([%d: ]*)|([%d: ]*)$')}
  return string.format('%d,%d,%d|', completed + more[1], failed + more[2], retried + more[3]) ..
    sum_histograms(wait, more[4]) .. '|' .. sum_histograms(ran, more[5])
end
local added, fields = {}, {}
for i = 5, #ARGV, 3 do
  local field, counts = (#ARGV[i] .. ':' .. ARGV[i] .. ':' .. (ARGV[i + 1])), ARGV[i + 2]
  if not string.match(counts, '^(%d+),(%d+),(%d+)|([%d: ]*)|([%d: ]*)$') then
    do
      local area, message = 'Rates.add', 'Arg "counts" is not of the known form: ' .. string.sub(counts, 1, 200)
      error(area .. '(): ' .. message)
    end
  end
  if not added[field] then
    fields[#fields + 1] = field
  end
  added[field] = sum(added[field], counts)
end
if not added['0::'] then
  fields[#fields + 1] = '0::'
end
if began < now - 259200 or finite(call('get', prefix .. 'x:rates:sent:' .. run), -1) >= sent then
  return 0
end
local key = prefix .. 'x:rates:' .. string.format('%d', began - began % 60)
local stored, count = call('hmget', key, unpack(fields)), call('hlen', key)
local update, fresh = {}, count == 0
local rest, rest_stored = added['0::'], nil
for i = 1, #fields do
  local field = fields[i]
  if field == '0::' then
    rest_stored = stored[i]
  elseif stored[i] or count < 500 then
    count = stored[i] and count or count + 1
    update[#update + 1] = field
    update[#update + 1] = sum(stored[i], added[field])
  else
    rest = sum(rest, added[field])
  end
end
if rest then
  update[#update + 1] = '0::'
  update[#update + 1] = sum(rest_stored, rest)
end
call('set', prefix .. 'x:rates:sent:' .. run, ARGV[3], 'EX', 1800)
if #update > 0 then
  try('hset', key, unpack(update))
end
if fresh then
  try('expire', key, 259200)
end
return 1

