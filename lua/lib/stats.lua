-- Statistics by queue and day: waiting times and run times of jobs (mean, variance, histogram), and
-- the numbers of retried and failed jobs. Variance is kept by Welford's method in vk.

-- Returns midnight (UTC) of the day that contains a time.
local function day_of(at)
  return at - at % 86400
end

local function stats_key(kind, day, queue)
  return prefix .. 's:' .. kind .. ':' .. string.format('%d', day) .. ':' .. queue
end

local function days_kept(option, default)
  return finite(try('hget', prefix .. 'config', option), default)
end

-- Expires a day's statistics stats-history days after it, by the caller's clock, not the server's.
local function expire_stats(key, day)
  local keep = day + 86400 * (1 + days_kept('stats-history', DEFAULT_STATS_HISTORY)) - now
  try('expire', key, string.format('%.0f', math.min(math.max(keep, 60), 1e10)))
end

-- Returns the buckets of a histogram, and whether its key exists.
local function buckets_of(key) -- cold
  local buckets, fields = {}, try('hkeys', key)
  for i = 1, #fields do
    if string.find(fields[i], '^[smhd]%-?%d+$') then
      buckets[#buckets + 1] = fields[i]
    end
  end
  return buckets, #fields > 0
end

-- Removes a queue's histograms older than histogram-history, for days that still have summaries. A
-- day without buckets was pruned, as were all older days.
local function prune_histograms(kind, day, queue)
  local from = days_kept('histogram-history', DEFAULT_HISTOGRAM_HISTORY)
  local to = math.min(days_kept('stats-history', DEFAULT_STATS_HISTORY), from + 90)
  local keys = {}
  for age = math.max(from, 0) + 1, to do
    keys[#keys + 1] = stats_key(kind, day - 86400 * age, queue)
  end
  local left = #keys > 0 and count_existing(keys) or 0
  for i = 1, left > 0 and #keys or 0 do
    local buckets, exists = buckets_of(keys[i])
    if exists then
      left = #buckets > 0 and left - 1 or 0
      each_slice(call, 'hdel', keys[i], buckets)
    end
    if left == 0 then
      return
    end
  end
end

-- Prepares for a day's first observation.
local function begin_day(kind, day, queue) -- cold
  expire_stats(stats_key(kind, day, queue), day)
  prune_histograms(kind, day, queue)
end

-- Returns the histogram bucket of a duration: by seconds, minutes, hours, then days.
local function bucket_of(seconds)
  if seconds < 60 then
    return 's' .. math.floor(seconds)
  elseif seconds < 3600 then
    return 'm' .. math.floor(seconds / 60)
  elseif seconds < 86400 then
    return 'h' .. math.floor(seconds / 3600)
  end
  return 'd' .. string.format('%.0f', math.floor(seconds / 86400))
end

-- Counts the durations in each bucket. Returns the fields of a summary followed by the buckets'
-- names, with the counts by name. Most jobs take less than a second.
local function count_buckets(durations)
  local fields, short = {'total', 'mean', 'vk', 's0', s0 = 0}, 0
  for i = 1, #durations do
    local seconds = durations[i]
    if seconds >= 0 and seconds < 1 then
      short = short + 1
    else
      local name = bucket_of(seconds)
      if not fields[name] then
        fields[#fields + 1] = name
      end
      fields[name] = (fields[name] or 0) + 1
    end
  end
  if short == 0 then
    table.remove(fields, 4)
  end
  fields.s0 = short
  return fields
end

-- Writes a summary, and the requested buckets.
local function write_summary(key, total, mean, vk, asked, values)
  local update = {'total', string.format('%d', total), 'mean', mean, 'vk', vk, '', ''}
  for i = 4, #asked do
    update[2 * i - 1] = asked[i]
    update[2 * i] = string.format('%d', finite(values[i], 0) + asked[asked[i]])
  end
  try('hset', key, unpack(update))
end

-- Reports whether all durations are in the first bucket.
local function are_short(durations)
  for i = 1, #durations do
    if durations[i] < 0 or durations[i] >= 1 then
      return false
    end
  end
  return true
end

-- Adds at most a few hundred durations to today's wait or run of a queue, by one read and write.
local function observe(kind, queue, durations)
  local day = day_of(now)
  local key, short = stats_key(kind, day, queue), are_short(durations)
  local values, asked
  if short then
    values = try('hmget', key, 'total', 'mean', 'vk', 's0')
  else
    asked = count_buckets(durations)
    values = try('hmget', key, unpack(asked))
  end
  local total, mean, vk, within_second = unpack(values, 1, 4)
  total, mean, vk = finite(total, 0), finite(mean, 0), finite(vk, 0)
  local fresh = total == 0
  if fresh then
    mean, vk = 0, 0
  end
  for i = 1, #durations do
    local value, before = durations[i], mean
    total = total + 1
    mean = mean + (value - mean) / total
    vk = vk + (value - mean) * (value - before)
  end
  if short then
    try('hset', key, 'total', string.format('%d', total), 'mean', mean, 'vk', vk,
      's0', string.format('%d', finite(within_second, 0) + #durations))
  else
    write_summary(key, total, mean, vk, asked, values)
  end
  if fresh then
    begin_day(kind, day, queue)
  end
end

-- Returns the key for daily statistics of a queue that classic clients don't know.
local function own_stats_key(day, queue)
  return prefix .. 'x:stats:' .. string.format('%d', day) .. ':' .. queue
end

-- Adds to a day's count of retries, failures, failed jobs, or jobs that expired before their end.
local function tally(day, queue, field, by)
  local key = field == 'expired' and own_stats_key(day, queue) or stats_key('stats', day, queue)
  if try('hincrby', key, field, by) == by then
    expire_stats(key, day)
  end
end
