-- overview: the figures of queues, workers, failures and limits, for metrics. Changes nothing: due
-- jobs count as waiting where they are.
--
-- Args     offset, count, more, queue...
--          offset, count  selects from the queues in the order in which they were first seen
--          more           1 for all figures, 0 for the figures of queues only
--          queue...       the queues with statistics of today
-- Returns  an array: the time; the number of queues; the names of the selected ones; the
--          max-concurrency of each; the names of the paused ones; for each selected queue with
--          jobs, in sequence, its place from 1, waiting, running, stalled, scheduled, depends,
--          recurring, and oldest in milliseconds; for each queue with statistics {name, retries,
--          failed, failures, expired, wait, run}, where wait and run are fields and values; and the
--          damaged keys, each with its kind: their figures are nil. With more also the number of
--          workers seen lately; at most 1000 failure groups with their sizes; at most 100 limits,
--          usually the same, each with its name, definition, slots in use and parked jobs; and the
--          server's used_memory, maxmemory and maxmemory_policy, unless it refuses
-- Errors   Overview()
-- Cost     7 commands; up to 8 a queue, 2 a priority of its jobs; with more 1 a group, 2 a limit
-- For      Go
-- Repeat   safe

local MAX_GROUPS = 1000
local MAX_LISTED = 100

-- The maximum number of limits that are read.
local MAX_SHOWN_LIMITS = 1000

local damaged = {}

-- The reply of a command for a key, or false if the key is damaged, which is noted.
local function read(operation, key, ...)
  local reply = try(operation, key, ...)
  if type(reply) == 'table' and reply.err then
    add_pair(damaged, key, try('type', key).ok or 'none')
    return false
  end
  return reply
end

-- The scores, as text, at which the turns of priorities begin: writing a number is expensive.
local turns = {}

-- The priority of the job at a place of work, and since when it waits, if its score tells.
local function told_by_score(work, place)
  local score = tonumber(call('zrevrange', work, place, place, 'WITHSCORES')[2])
  if score then
    local priority = math.ceil(score)
    local lack = priority - score
    local at = lack * 10000000000
    if lack >= NO_TIME and lack < TURNS and at <= now + 1 then
      return priority, at
    end
  end
end

-- The time since which the oldest of some waiting jobs waits, from the first score of each
-- priority, if all jobs are in the order of their ages, as in most queues. Otherwise nil.
local function first_of_all(work, waiting)
  local since, rank, place = now, 0, '0'
  for _ = 1, MAX_BANDS do
    local priority, at = told_by_score(work, place)
    if not priority then
      return nil
    end
    since, rank = math.min(since, at), rank + 1
    if rank < waiting then
      turns[priority] = turns[priority] or exact(priority - TURNS)
      rank = waiting - call('zcount', work, '-inf', turns[priority])
    end
    if rank == waiting then
      return since
    end
    place = exact(rank)
  end
end

-- The time since which the oldest of some waiting jobs waits.
local function waiting_since(queue, work, waiting)
  local at = first_of_all(work, waiting)
  if at then
    return at
  end
  local bands = {}
  add_waiting(bands, queue)
  return now - (bands.longest or 0)
end

-- The time when the first job of a part of a queue falls, or fell, due.
local function first_due(key)
  return finite(call('zrange', key, '0', '0', 'WITHSCORES')[2], math.huge)
end

-- The parts of a queue, and their keys for the present queue.
local PARTS = {'work', 'locks', 'scheduled', 'recur', 'depends'}
local keys = {}

-- The sizes of these parts, false for damaged parts. Stops after n parts that exist.
local function read_sizes(n)
  local sizes = {0, 0, 0, 0, 0}
  for i = 1, #PARTS do
    if n > 0 then
      sizes[i] = read('zcard', keys[i])
      n = sizes[i] == 0 and n or n - 1
    end
  end
  return unpack(sizes)
end

-- Adds the figures of a queue with n existing parts, at a place in the list of queues.
local function add_figures(found, at, queue, n)
  local waiting, held, ahead, repeated, dependent = read_sizes(n)
  local work, locks, scheduled, recur = unpack(keys)
  local since, stalled, due = now, held, 0
  if waiting and waiting > 0 then
    since = math.min(since, waiting_since(queue, work, waiting))
  end
  if held and held > 0 then
    stalled = call('zcount', locks, '0', stamp)
  end
  if ahead and ahead > 0 then
    due = call('zcount', scheduled, '-inf', stamp)
    since = due > 0 and math.min(since, first_due(scheduled)) or since
  end
  if repeated and repeated > 0 then
    since = math.min(since, first_due(recur))
  end
  n = #found
  found[n + 1], found[n + 2], found[n + 3], found[n + 4], found[n + 5], found[n + 6], found[n + 7],
    found[n + 8] = at, waiting and waiting + due, held and held - stalled, stalled,
    ahead and ahead - due, dependent, repeated,
    waiting and ahead and repeated and math.floor((now - since) * 1000)
end

-- The figures of the queues that have any jobs. Most have none, and reporting these would be most
-- of the cost of an overview.
local function all_figures(queues)
  local found = {}
  for i = 1, #queues do
    for at = 1, #PARTS do
      keys[at] = queue_key(queues[i], PARTS[at])
    end
    local n = call('exists', unpack(keys))
    if n > 0 then
      add_figures(found, i, queues[i], n)
    end
  end
  return found
end

local function most_running(queues)
  local fields = {}
  for i = 1, #queues do
    fields[i] = queues[i] .. '-max-concurrency'
  end
  return #fields > 0 and read('hmget', prefix .. 'config', unpack(fields)) or none
end

-- The paused queues among some queues.
local function paused_queues(queues)
  local key, paused = prefix .. 'paused_queues', {}
  local flags = #queues > 0 and read('smismember', key, unpack(queues)) or none
  for i = 1, #flags do
    if flags[i] == 1 then
      paused[#paused + 1] = queues[i]
    end
  end
  return paused
end

-- The queues from offset on: first the list queues, then the list x:queues.
local function queue_names(offset, count)
  local listed, more = prefix .. 'queues', prefix .. 'x:queues'
  local here, there = read('zcard', listed) or 0, read('zcard', more) or 0
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

local function day_figures(queue)
  local day = day_of(now)
  local counts = read('hmget', stats_key('stats', day, queue), 'retries', 'failed', 'failures')
  local retries, failed, failures = unpack(counts or none)
  return {
    queue, counts and (retries or ''), counts and (failed or ''), counts and (failures or ''),
    read('hget', own_stats_key(day, queue), 'expired') or '',
    read('hgetall', stats_key('wait', day, queue)), read('hgetall', stats_key('run', day, queue)),
  }
end

local function workers_seen()
  local age = read('hget', prefix .. 'config', 'max-worker-age')
  local from = now - finite(age, DEFAULT_MAX_WORKER_AGE)
  return read('zcount', prefix .. 'workers', '(' .. exact(from), '+inf')
end

-- The items of a scan, as many as wanted, or all; or false if the key is damaged.
local function scanned(operation, key, wanted)
  local found, cursor = {}, '0'
  repeat
    local reply = read(operation, key, cursor, 'COUNT', wanted)
    if not reply then
      return false
    end
    cursor = reply[1]
    for _, item in ipairs(reply[2]) do
      found[#found + 1] = item
    end
  until cursor == '0' or #found >= wanted
  return found
end

local function group_sizes()
  local groups, found = scanned('sscan', prefix .. 'failures', MAX_GROUPS), {}
  for i = 1, math.min(#(groups or none), MAX_GROUPS) do
    found[2 * i - 1], found[2 * i] = groups[i], read('llen', prefix .. 'f:' .. groups[i])
  end
  return groups and found
end

local function limit_figures()
  local stored, listed, defined = scanned('hscan', prefix .. 'x:limits', MAX_SHOWN_LIMITS), {}, {}
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
      name, defined[name],
      read('zcard', limit_key(name, 'held')), read('zcard', limit_key(name, 'wait')),
    }
  end
  return stored and found
end

local function memory_figures()
  local info, found = try('info', 'memory'), {}
  for i, field in ipairs({'used_memory', 'maxmemory', 'maxmemory_policy'}) do
    found[i] = type(info) == 'string' and string.match(info, field .. ':(%S+)') or nil
  end
  return found
end

local offset = whole('Overview', 'offset', ARGV[3] or 0)
local count = whole('Overview', 'count', ARGV[4] or 0)
local more = whole('Overview', 'more', ARGV[5] or 1) == 1
for i = 6, #ARGV do
  named('Overview', 'queue', ARGV[i])
end
local queues, total = queue_names(offset, count)
local found = {
  stamp, total, queues, most_running(queues), paused_queues(queues),
  all_figures(queues), {}, damaged,
}
for i = 6, #ARGV do
  found[7][i - 5] = day_figures(ARGV[i])
end
if more then
  found[9], found[10], found[11], found[12] =
    workers_seen(), group_sizes(), limit_figures(), memory_figures()
end
return found
