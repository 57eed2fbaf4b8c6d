-- overview: the figures of queues, workers, failures and limits, for metrics. Changes nothing: what
-- has fallen due counts as waiting where it is.
--
-- KEYS[1]  the namespace prefix
-- ARGV     NOW, offset, count, more, queue...: which of the queues, in the order in which they were
--          first seen; 1 for all figures, or 0 for those of queues alone; and the queues of which
--          the statistics of today are wanted
-- Returns  an array: the time; how many queues there are; for each of those wanted {name, paused,
--          max-concurrency, waiting, running, stalled, scheduled, depends, recurring, oldest}, the
--          last in milliseconds; for each with statistics {name, retries, failed, failures, expired,
--          wait, run}, the last two as fields and values; the keys that are damaged, whose figures
--          are nil; and with more how many workers were seen lately, failure groups with their
--          sizes, at most 1000, and limits, at most 100: the name, the definition, how many slots
--          are taken, how many jobs are parked
-- Errors   Overview()
-- Cost     12 commands; 1 a queue unless all have the same parts, 1 for each part that a queue has,
--          2 more if jobs wait, 1 each if some run or are scheduled, up to 2 for what is due, and for
--          priorities as latency; 4 for statistics; with more also 4, 1 a failure group and 2 a limit
-- Repeat   safe
-- Needs    exists hget hgetall hmget llen smembers time zcard zcount zrange zrevrange zrevrangebyscore

-- @include "lib/base.lua"
-- @include "lib/check.lua"
-- @include "lib/clock.lua"
-- @include "lib/latency.lua"
-- @include "lib/limits.lua"
-- @include "lib/settings.lua"
-- @include "lib/stats.lua"

local MAX_GROUPS = 1000
local MAX_LISTED = 100

-- The parts of a queue, those first that most queues have.
local PARTS = {'work', 'locks', 'scheduled', 'recur', 'depends'}

local damaged = {}

-- A reply, or false if it is the error of a damaged key, which is noted.
local function sound(reply, key)
  if type(reply) == 'table' and reply.err then
    damaged[#damaged + 1] = key
    return false
  end
  return reply
end

-- The waiting jobs of most queues have one priority and are in the order of their ages, as the first
-- and the last score tell. Returns since when the first waits, or nil if this is another queue.
local function first_of_all(work, waiting)
  local score = finite(call('zrevrange', work, 0, 0, 'WITHSCORES')[2], math.huge)
  local last = waiting > 1 and finite(call('zrange', work, 0, 0, 'WITHSCORES')[2], 0) or score
  local priority = math.ceil(score)
  local at = (priority - score) * 10000000000
  if score <= priority - NO_TIME and last > priority - TURNS and at <= now + 1 then
    return at
  end
end

-- Since when the oldest of some waiting jobs waits.
local function waiting_since(queue, waiting)
  local at = first_of_all(queue_key(queue, 'work'), waiting)
  if at then
    return at
  end
  local bands, longest = {}, 0
  add_waiting(bands, queue)
  for i = 1, #bands do
    longest = math.max(longest, bands[i].waited)
  end
  return now - longest
end

-- When the first job of a part of a queue falls due, or fell due.
local function first_due(key)
  return finite(call('zrange', key, 0, 0, 'WITHSCORES')[2], math.huge)
end

local function size_of(key)
  return sound(try('zcard', key), key)
end

-- Which parts any of the queues have, and whether each of the queues has all of these. In most
-- namespaces, no queue has some of them.
local function parts_of(queues)
  local there, all_have = {}, true
  for _, part in ipairs(PARTS) do
    local keys = {}
    for i = 1, #queues do
      keys[i] = queue_key(queues[i], part)
    end
    local found = call('exists', unpack(keys))
    if found > 0 then
      there[#there + 1] = part
      all_have = all_have and found == #queues
    end
  end
  return there, all_have
end

-- The sizes of a queue's parts, of those that it may have. They are asked for until all that there
-- are have been found.
local function sizes_of(queue, there, all_have)
  local sizes, keys = {work = 0, locks = 0, scheduled = 0, recur = 0, depends = 0}, {}
  for i = 1, #there do
    keys[i] = queue_key(queue, there[i])
  end
  local left = (all_have or #keys == 0) and #keys or call('exists', unpack(keys))
  for i = 1, #keys do
    if left == 0 then
      break
    end
    local size = size_of(keys[i])
    sizes[there[i]] = size
    if size ~= 0 then
      left = left - 1
    end
  end
  return sizes
end

local function queue_figures(queue, paused, max, sizes)
  local waiting, held, ahead = sizes.work, sizes.locks, sizes.scheduled
  local repeated = sizes.recur
  local stalled, due = held, 0
  if held and held > 0 then
    stalled = call('zcount', queue_key(queue, 'locks'), 0, stamp)
  end
  if ahead and ahead > 0 then
    due = call('zcount', queue_key(queue, 'scheduled'), '-inf', stamp)
  end
  local since = now
  if waiting and waiting > 0 then
    since = math.min(since, waiting_since(queue, waiting))
  end
  if due > 0 then
    since = math.min(since, first_due(queue_key(queue, 'scheduled')))
  end
  if repeated and repeated > 0 then
    since = math.min(since, first_due(queue_key(queue, 'recur')))
  end
  return {
    queue, paused, max, waiting and waiting + due, held and held - stalled, stalled,
    ahead and ahead - due, sizes.depends, repeated,
    waiting and ahead and repeated and math.floor((now - since) * 1000),
  }
end

-- The queues from offset on: those that are listed in queues, then those of x:queues.
local function queue_names(offset, count)
  local listed, more = prefix .. 'queues', prefix .. 'x:queues'
  local here, there = size_of(listed) or 0, size_of(more) or 0
  local found = {}
  if count > 0 and offset < here then
    found = call('zrange', listed, offset, offset + count - 1)
  end
  local from = math.max(offset - here, 0)
  if #found < count and from < there then
    for _, queue in ipairs(call('zrange', more, from, from + count - #found - 1)) do
      found[#found + 1] = queue
    end
  end
  return found, here + there
end

local function all_figures(queues)
  if #queues == 0 then
    return none
  end
  local config, pauses = prefix .. 'config', prefix .. 'paused_queues'
  local fields, paused, found = {}, {}, {}
  for i = 1, #queues do
    fields[i] = queues[i] .. '-max-concurrency'
  end
  local max = sound(try('hmget', config, unpack(fields)), config) or none
  local stopped = sound(try('smembers', pauses), pauses)
  for _, queue in ipairs(stopped or none) do
    paused[queue] = 1
  end
  local there, all_have = parts_of(queues)
  for i = 1, #queues do
    local queue = queues[i]
    found[i] = queue_figures(queue, stopped and (paused[queue] or 0), max[i] or '',
      sizes_of(queue, there, all_have))
  end
  return found
end

local function day_figures(queue)
  local day = day_of(now)
  local key, own = stats_key('stats', day, queue), own_stats_key(day, queue)
  local waits, runs = stats_key('wait', day, queue), stats_key('run', day, queue)
  local counts = sound(try('hmget', key, 'retries', 'failed', 'failures'), key)
  local retries, failed, failures = unpack(counts or none)
  return {
    queue, counts and (retries or ''), counts and (failed or ''), counts and (failures or ''),
    sound(try('hget', own, 'expired'), own) or '', sound(try('hgetall', waits), waits),
    sound(try('hgetall', runs), runs),
  }
end

local function workers_seen()
  local config, workers = prefix .. 'config', prefix .. 'workers'
  local age = sound(try('hget', config, 'max-worker-age'), config)
  local from = now - finite(age, DEFAULT_MAX_WORKER_AGE)
  return sound(try('zcount', workers, '(' .. exact(from), '+inf'), workers)
end

local function group_sizes()
  local key = prefix .. 'failures'
  local groups, found = sound(try('smembers', key), key), {}
  for i = 1, math.min(#(groups or none), MAX_GROUPS) do
    local group = prefix .. 'f:' .. groups[i]
    found[2 * i - 1] = groups[i]
    found[2 * i] = sound(try('llen', group), group)
  end
  return groups and found
end

local function limit_figures()
  local key = prefix .. 'x:limits'
  local stored, listed, defined = sound(try('hgetall', key), key), {}, {}
  for i = 1, #(stored or none), 2 do
    if not string.find(stored[i], ' ', 1, true) then
      listed[#listed + 1], defined[stored[i]] = stored[i], stored[i + 1]
    end
  end
  table.sort(listed)
  local found = {}
  for i = 1, math.min(#listed, MAX_LISTED) do
    local name = listed[i]
    found[i] = {
      name, defined[name], size_of(limit_key(name, 'held')), size_of(limit_key(name, 'wait')),
    }
  end
  return stored and found
end

local offset = whole('Overview', 'offset', ARGV[2] or 0)
local count = whole('Overview', 'count', ARGV[3] or 0)
local more = whole('Overview', 'more', ARGV[4] or 1) == 1
for i = 5, #ARGV do
  named('Overview', 'queue', ARGV[i])
end
local queues, total = queue_names(offset, count)
local figures, days = all_figures(queues), {}
for i = 5, #ARGV do
  days[i - 4] = day_figures(ARGV[i])
end
if not more then
  return {stamp, total, figures, days, damaged}
end
return {
  stamp, total, figures, days, damaged, workers_seen(), group_sizes(), limit_figures(),
}
