-- stats: a queue's statistics of one day.
--
-- KEYS[1]  the namespace prefix
-- ARGV     NOW, queue, date (any time of that day)
-- Returns  JSON {retries, failed, failures, wait, run}, and expired, if any jobs have; wait and run are
--          {count, mean, std, histogram}; the histogram has 60 seconds, 59 minutes, 23 hours and
--          6 days
-- Errors   Stats()
-- Cost     4 commands
-- Repeat   safe
-- Needs    hget hmget time

local call = redis.call
local prefix = KEYS[1]
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


local function day_of(at)
  return at - at % 86400
end

local queue
do
  local area, name, text = 'Queue', 'queue', ARGV[2]
  if not text then
    local words = {
      Job = 'no jid provided', Recurring = 'no jid provided', Queue = 'no queue name provided',
    }
    do
      local area, message = area, words[area] or 'Arg "' .. name .. '" missing'
      error(area .. '(): ' .. message)
    end
  end
  queue = text
end
local day = day_of(number('Stats', 'date', ARGV[3]))
local fields = {'total', 'mean', 'vk'}
do
  local unit, first, last = 's', 0, 59
  for i = first, last do
    fields[#fields + 1] = unit .. i
  end
end
do
  local unit, first, last = 'm', 1, 59
  for i = first, last do
    fields[#fields + 1] = unit .. i
  end
end
do
  local unit, first, last = 'h', 1, 23
  for i = first, last do
    fields[#fields + 1] = unit .. i
  end
end
do
  local unit, first, last = 'd', 1, 6
  for i = first, last do
    fields[#fields + 1] = unit .. i
  end
end
local function summary(kind)
  local values = call('hmget', prefix .. 's:' .. kind .. ':' .. string.format('%d', day) .. ':' .. queue, unpack(fields))
  local count = finite(values[1], 0)
  local std = 0
  if count > 1 then
    std = math.sqrt(math.max(finite(values[3], 0), 0) / (count - 1))
  end
  local histogram = {}
  for i = 4, #fields do
    histogram[i - 3] = finite(values[i], 0)
  end
  return {count = count, mean = finite(values[2], 0), std = std, histogram = histogram}
end
local expired = finite(call('hget', prefix .. 'x:stats:' .. string.format('%d', day) .. ':' .. queue, 'expired'), 0)
local counts = call('hmget', prefix .. 's:stats:' .. string.format('%d', day) .. ':' .. queue, 'retries', 'failed', 'failures')
return cjson.encode({
  retries = finite(counts[1], 0),
  failed = finite(counts[2], 0),
  failures = finite(counts[3], 0),
  expired = expired > 0 and expired or nil,
  wait = summary('wait'),
  run = summary('run'),
})

