-- stats: a queue's statistics of one day.
--
-- Args     queue, date (any time of that day)
-- Returns  JSON {retries, failed, failures, wait, run}, and expired, if any jobs have; wait and run
--          are {count, mean, std, histogram}; the histogram has 60 seconds, 59 minutes, 23 hours
--          and 6 days
-- Errors   Stats()
-- Cost     4 commands
-- For      classic
-- Repeat   safe

local queue = required('Queue', 'queue', ARGV[3])
local day = day_of(number('Stats', 'date', ARGV[4]))

local fields = {'total', 'mean', 'vk'}
for _, unit in ipairs({{'s', 0, 59}, {'m', 1, 59}, {'h', 1, 23}, {'d', 1, 6}}) do
  for i = unit[2], unit[3] do
    fields[#fields + 1] = unit[1] .. i
  end
end

local function summary(kind)
  local values = call('hmget', stats_key(kind, day, queue), unpack(fields))
  local count, mean, vk = unpack(values, 1, 3)
  local std = 0
  count = finite(count, 0)
  if count > 1 then
    std = math.sqrt(math.max(finite(vk, 0), 0) / (count - 1))
  end
  local histogram = {}
  for i = 4, #fields do
    histogram[i - 3] = finite(values[i], 0)
  end
  return {count = count, mean = finite(mean, 0), std = std, histogram = histogram}
end

local expired = finite(call('hget', own_stats_key(day, queue), 'expired'), 0)
local retries, failed, failures = unpack(
  call('hmget', stats_key('stats', day, queue), 'retries', 'failed', 'failures'))
return cjson.encode({
  retries = finite(retries, 0), failed = finite(failed, 0), failures = finite(failures, 0),
  expired = expired > 0 and expired or nil, wait = summary('wait'), run = summary('run'),
})
