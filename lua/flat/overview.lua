-- overview: the figures of queues, workers, failures and limits, for metrics. Changes nothing: what
-- has fallen due counts as waiting where it is.
--
-- KEYS[1]  the namespace prefix
-- ARGV     NOW, offset, count, more, queue...: which of the queues, in the order in which they were
--          first seen; 1 for all figures, or 0 for those of queues alone; and the queues of which
--          the statistics of today are wanted
-- Returns  an array: the time; how many queues there are; the names of those wanted, and the
--          max-concurrency of each; the names of those that are paused; for each of those wanted that has
--          jobs, on end, its place from 1, waiting, running, stalled, scheduled, depends, recurring,
--          and oldest in milliseconds; for each with statistics {name, retries, failed, failures,
--          expired, wait, run}, the last two as fields and values; the keys that are damaged, whose
--          figures are nil; and with more how many workers were seen lately, failure groups with
--          their sizes, at most 1000, and limits, at most 100: the name, the definition, how many
--          slots are taken, how many jobs are parked; of more than some 1000 limits, the first by
--          name of some that are always the same unless limits come or go
-- Errors   Overview()
-- Cost     7 commands; 1 a queue, 1 for each part that it has, 2 for each priority of the jobs that
--          wait, 1 if some run, 1 if some are scheduled, up to 2 for what is due, and as latency if
--          scores don't tell; 4 for statistics; with more also 4, 1 a failure group and 2 a limit
-- Repeat   safe
-- Needs    exists hget hgetall hmget hscan llen smismember sscan time zcard zcount zrange zrevrange zrevrangebyscore

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

local function whole(area, name, text)
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
  return amount + 0
end
local none = {}

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

local LARGEST = 2 ^ 53
local NO_TIME = 0.1
local TURNS = 0.5
local function since_when(jid, score)
  local job = try('hmget', prefix .. 'j:' .. jid, 'priority', 'time')
  local priority = finite(job[1], 0)
  local at = (priority - score) * 10000000000
  if at >= NO_TIME * 10000000000 and at <= now + 1 then
    return at, priority
  end
  return finite(job[2], now), priority
end
local function add_wait(bands, priority, at)
  local waited = math.max(now - at, 0)
  for i = 1, #bands do
    if bands[i].priority == priority then
      bands[i].waited = math.max(bands[i].waited, waited)
      return
    end
  end
  bands[#bands + 1] = {priority = priority, waited = waited}
end
local function add_waiting(bands, queue)
  local work, from = prefix .. 'q:' .. queue .. '-work', '+inf'
  for _ = 0, 16 do
    local head = call('zrevrangebyscore', work, from, '-inf', 'WITHSCORES', 'LIMIT', '0', '1')[2]
    local score = finite(head)
    if not head or not score and string.sub(head, 1, 1) == '-' then
      return false
    elseif #bands >= 16 then
      return true
    elseif not score then
      do
        local bands, work, from, to, limit = bands, work, '+inf', '+inf', '8'
        local found = call('zrevrangebyscore', work, from, to, 'WITHSCORES', 'LIMIT', '0', limit)
        for i = 1, #found, 2 do
          local at, priority = since_when(found[i], finite(found[i + 1], math.huge))
          add_wait(bands, priority, at)
        end
      end
      from = string.format('%.17g', LARGEST)
    else
      local priority = math.ceil(score)
      do
        local bands, work, priority, score = bands, work, priority, score
        if score > priority - NO_TIME then
          do
            local bands, work, from, to, limit = bands, work, string.format('%.17g', score), '(' .. string.format('%.17g', (priority - NO_TIME)), '8'
            local found = call('zrevrangebyscore', work, from, to, 'WITHSCORES', 'LIMIT', '0', limit)
            for i = 1, #found, 2 do
              local at, priority = since_when(found[i], finite(found[i + 1], math.huge))
              add_wait(bands, priority, at)
            end
          end
        end
        if score > priority - TURNS then
          do
            local bands, work, from, to, limit = bands, work, string.format('%.17g', (priority - NO_TIME)), '(' .. string.format('%.17g', (priority - TURNS)), '1'
            local found = call('zrevrangebyscore', work, from, to, 'WITHSCORES', 'LIMIT', '0', limit)
            for i = 1, #found, 2 do
              local at, priority = since_when(found[i], finite(found[i + 1], math.huge))
              add_wait(bands, priority, at)
            end
          end
        end
        do
          local bands, work, from, to, limit = bands, work, string.format('%.17g', (priority - TURNS)), '(' .. string.format('%.17g', (priority - 1)), '1'
          local found = call('zrevrangebyscore', work, from, to, 'WITHSCORES', 'LIMIT', '0', limit)
          for i = 1, #found, 2 do
            local at, priority = since_when(found[i], finite(found[i + 1], math.huge))
            add_wait(bands, priority, at)
          end
        end
      end
      from = string.format('%.17g', (priority - 1))
    end
  end
  return true
end








local seldom1




local damaged = {}
local function sound(reply, key)
  if type(reply) == 'table' and reply.err then
    damaged[#damaged + 1] = key
    return false
  end
  return reply
end
local turns = {}
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
local function first_of_all(work, waiting)
  local since, rank, place = now, 0, '0'
  for _ = 1, 16 do
    local priority, at = told_by_score(work, place)
    if not priority then
      return nil
    end
    since, rank = math.min(since, at), rank + 1
    if rank < waiting then
      turns[priority] = turns[priority] or string.format('%.17g', (priority - TURNS))
      rank = waiting - call('zcount', work, '-inf', turns[priority])
    end
    if rank == waiting then
      return since
    end
    place = string.format('%.17g', rank)
  end
end
local function waiting_since(queue, work, waiting)
  local at = first_of_all(work, waiting)
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
local function size_of(key)
  return sound(try('zcard', key), key)
end
local function all_figures(queues)
  local found = {}
  for i = 1, #queues do
    local key = prefix .. 'q:' .. queues[i] .. '-'
    local work, locks, scheduled = key .. 'work', key .. 'locks', key .. 'scheduled'
    local recur, depends = key .. 'recur', key .. 'depends'
    local parts = call('exists', work, locks, scheduled, recur, depends)
    if parts > 0 then
      do
        local found, at, queue, parts, work, locks, scheduled, recur, depends = found, i, queues[i], parts, work, locks, scheduled, recur, depends
        local waiting, held, stalled, ahead, due, repeated, dependent = sound(try('zcard', work), work), 0, 0, 0, 0, 0, 0
        local since = now
        if waiting ~= 0 then
          parts = parts - 1
          since = waiting and math.min(since, waiting_since(queue, work, waiting)) or since
        end
        if parts > 0 then
          held = sound(try('zcard', locks), locks)
          parts = held == 0 and parts or parts - 1
          stalled = held and held > 0 and call('zcount', locks, '0', stamp) or held
        end
        if parts > 0 then
          ahead = sound(try('zcard', scheduled), scheduled)
          parts = ahead == 0 and parts or parts - 1
          due = ahead and ahead > 0 and call('zcount', scheduled, '-inf', stamp) or 0
          since = due > 0 and math.min(since, finite(call('zrange', scheduled, '0', '0', 'WITHSCORES')[2], math.huge)) or since
        end
        if parts > 0 then
          repeated = sound(try('zcard', recur), recur)
          parts = repeated == 0 and parts or parts - 1
          since = repeated and repeated > 0 and math.min(since, finite(call('zrange', recur, '0', '0', 'WITHSCORES')[2], math.huge)) or since
        end
        if parts > 0 then
          dependent = sound(try('zcard', depends), depends)
        end
        local n = #found
        found[n + 1], found[n + 2], found[n + 3], found[n + 4], found[n + 5], found[n + 6], found[n + 7],
          found[n + 8] = at, waiting and waiting + due, held and held - stalled, stalled,
          ahead and ahead - due, dependent, repeated,
          waiting and ahead and repeated and math.floor((now - since) * 1000)
      end
    end
  end
  return found
end
local function most_running(queues)
  local fields = {}
  for i = 1, #queues do
    fields[i] = queues[i] .. '-max-concurrency'
  end
  local config = prefix .. 'config'
  return #fields > 0 and sound(try('hmget', config, unpack(fields)), config) or none
end
local function paused_queues(queues)
  local key, paused = prefix .. 'paused_queues', {}
  local flags = #queues > 0 and sound(try('smismember', key, unpack(queues)), key) or none
  for i = 1, #flags do
    if flags[i] == 1 then
      paused[#paused + 1] = queues[i]
    end
  end
  return paused
end
local function day_figures(queue)
  local day = (now - now % 86400)
  local key, own = prefix .. 's:stats:' .. string.format('%d', day) .. ':' .. queue, prefix .. 'x:stats:' .. string.format('%d', day) .. ':' .. queue
  local waits, runs = prefix .. 's:wait:' .. string.format('%d', day) .. ':' .. queue, prefix .. 's:run:' .. string.format('%d', day) .. ':' .. queue
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
  local from = now - finite(age, 86400)
  return sound(try('zcount', workers, '(' .. string.format('%.17g', from), '+inf'), workers)
end
seldom1 = function(which, ...)
if which == 'limit_key' then
local name, part = ...
  return prefix .. 'x:limit:' .. name .. ':' .. part
elseif which == 'scanned' then
local scan, key, wanted = ...
  local found, cursor = {}, '0'
  repeat
    local reply = sound(scan(key, cursor, wanted), key)
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
end
local function scan_set(key, cursor, count)
  return try('sscan', key, cursor, 'COUNT', count)
end
local function scan_hash(key, cursor, count)
  return try('hscan', key, cursor, 'COUNT', count)
end
local function group_sizes()
  local key = prefix .. 'failures'
  local groups, found = seldom1('scanned', scan_set, key, 1000), {}
  for i = 1, math.min(#(groups or none), 1000) do
    local group = prefix .. 'f:' .. groups[i]
    found[2 * i - 1], found[2 * i] = groups[i], sound(try('llen', group), group)
  end
  return groups and found
end
local function limit_figures()
  local key = prefix .. 'x:limits'
  local stored, listed, defined = seldom1('scanned', scan_hash, key, 1000), {}, {}
  for i = 1, #(stored or none), 2 do
    if not string.find(stored[i], ' ', 1, true) then
      listed[#listed + 1], defined[stored[i]] = stored[i], stored[i + 1]
    end
  end
  table.sort(listed)
  local found = {}
  for i = 1, math.min(#listed, 100) do
    local name = listed[i]
    found[i] = {
      name, defined[name], size_of(seldom1('limit_key', name, 'held')), size_of(seldom1('limit_key', name, 'wait')),
    }
  end
  return stored and found
end
local offset = whole('Overview', 'offset', ARGV[2] or 0)
local count = whole('Overview', 'count', ARGV[3] or 0)
local more = whole('Overview', 'more', ARGV[4] or 1) == 1
for i = 5, #ARGV do
  repeat
    local area, name, text = 'Overview', 'queue', ARGV[i]
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
      break
    end
  until true
end
local queues, total
do
  local offset, count = offset, count
  local listed, more = prefix .. 'queues', prefix .. 'x:queues'
  local here, there = sound(try('zcard', listed), listed) or 0, sound(try('zcard', more), more) or 0
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
  queues, total = found, here + there
end
local found = {
  stamp, total, queues, most_running(queues), paused_queues(queues),
  all_figures(queues), {}, damaged,
}
for i = 5, #ARGV do
  found[7][i - 4] = day_figures(ARGV[i])
end
if more then
  found[9], found[10], found[11] = workers_seen(), group_sizes(), limit_figures()
end
return found

