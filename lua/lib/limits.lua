-- Limits. A job with the option c, a list of names, runs only while each of these limits has room.
-- A limit is a concurrency, a rate, or both. A job without room is parked: it is scheduled, and
-- returns to work with its previous score when there is room.
--
-- x:limits is a hash. NAME holds the definition "CONCURRENCY RATE PER", 0 meaning none; "NAME hold"
-- holds the time before which nothing starts. A limit FAMILY/KEY without a definition uses that of
-- FAMILY.
--
-- x:limit:NAME:held is a sorted set of the jobs holding a slot, by lock expiry when they were
-- taken, in whole seconds, because Redis keeps a small sorted set as a list, and fractions there as
-- text. The job decides: unless running, it has no slot. x:limit:NAME:starts is a list of the times
-- of the last starts, newest first, as many as the rate. x:limit:NAME:wait is a sorted set of
-- parked jobs, by their previous scores in work.
--
-- The field x:parked of a parked job is "TIME NAME". The job is parked while it is scheduled and
-- its own time is TIME: a later put or pop changes the time.

-- The maximum number of a job's limits, and the maximum length of a name.
local MAX_LIMITS = 8
local MAX_NAME = 200

-- The maximum number of holders to check for expired locks when a limit is full.
local LOOKED_UP = 20

local function limit_key(name, part)
  return prefix .. 'x:limit:' .. name .. ':' .. part
end

local function check_limit_name(area, name) -- cold
  if type(name) ~= 'string' or name == '' or #name > MAX_NAME or string.find(name, '[%c%s]') then
    reject(area, 'This is no name of a limit: ' .. string.sub(tostring(name), 1, MAX_NAME))
  end
  return name
end

-- Returns the names in the options text.
local function limits_of(text)
  local listed = split_options(text)[LIMITED]
  if type(listed) == 'table' and #listed == 1 and type(listed[1]) == 'string' then
    return listed -- the usual case
  end
  local found, seen = {}, {}
  for _, name in ipairs(type(listed) == 'table' and listed or none) do
    if type(name) == 'string' and not seen[name] and #found < MAX_LIMITS then
      seen[name], found[#found + 1] = true, name
    end
  end
  return found
end

-- Checks the limits in the options of a put.
local function read_limits(area, text) -- cold
  local found, listed = limits_of(text), split_options(text)[LIMITED]
  for i = 1, #found do
    check_limit_name(area, found[i])
  end
  if type(listed) ~= 'table' or #found == 0 or #found ~= #listed then
    reject(area, 'Arg "o" does not have 1 to ' .. MAX_LIMITS .. ' limits: ' ..
      string.sub(text, 1, 200))
  end
end

-- Reads a limit. most is the number of jobs that the call may start.
local function read_limit(name, most)
  local family = string.match(name, '^([^/]+)/.') or name
  local own, held_until, general = unpack(
    try('hmget', prefix .. 'x:limits', name, name .. ' hold', family))
  local max, rate, per = string.match(own or general or '', '^(%d+) (%d+) (%S+)$')
  max, rate, per = finite(max, 0), finite(rate, 0), finite(per, 0)
  local hold = finite(held_until, 0)
  local limit = {
    name = name, max = max, rate = per > 0 and rate or 0, per = per, hold = hold > now and hold,
    passed = held_until and hold <= now, most = most, list = limit_key(name, 'starts'),
    room = math.huge, started = 0, noted = 0, held = {'0', NO_LIST},
  }
  if max > 0 then
    limit.room = max - finite(try('zcard', limit_key(name, 'held')), 0)
  end
  return limit
end

-- Reads a queue's max-rate from the text of the setting, as a limit without a name, or nil.
local function read_max_rate(queue, text, most) -- cold
  local rate, per = string.match(type(text) == 'string' and text or '', '^(%d+)/(%S+)$')
  rate, per = finite(rate, 0), finite(per, 0)
  if rate > 0 and per > 0 then
    return {rate = rate, per = per, list = prefix .. 'x:rate:' .. queue, most = most, started = 0}
  end
end

-- Returns the time in a text, or nil if missing. A time in the future counts as missing: the
-- server's clock was set back.
local function noted_time(text) -- cold
  local time = finite(text)
  return time and time <= now + 1 and time or nil
end

-- Returns the time when the rate allows one more start after this call's starts, or nil if that is
-- now: the start rate places earlier must be long enough ago. Reads a few of the list at a time.
local function rate_opens(limit) -- cold
  local place = limit.rate - limit.started - 1
  if place < 0 then
    return now + limit.per
  elseif not limit.from or place < limit.from then
    limit.from = math.max(place - limit.most + 1, 0)
    limit.times = try('lrange', limit.list, limit.from, place)
  end
  local time = noted_time(limit.times[place - limit.from + 1])
  local opens = time and time + limit.per
  return opens and opens > now and opens or nil
end

-- Reports whether the rate allows n more starts after this call's starts.
local function rate_allows(limit, n) -- cold
  local place = limit.rate - limit.started - n
  local time = place >= 0 and noted_time(try('lrange', limit.list, place, place)[1])
  return place >= 0 and not (time and time + limit.per > now)
end

-- Adds n starts at the current time to the list.
local function note_starts(limit, n) -- cold
  local times = {}
  for i = 1, n do
    times[i] = stamp
  end
  if n > 0 then
    try('lpush', limit.list, unpack(times))
    try('ltrim', limit.list, 0, limit.rate - 1)
    try('pexpire', limit.list, string.format('%.0f', math.ceil(limit.per * 1000)))
  end
  limit.started, limit.from = 0, nil
end

-- Returns the score of a slot for a lock that ends at a time.
local function slot_end(ends)
  return string.format('%.0f', math.ceil(ends))
end

-- Returns the time at which a worker loses a job, or nil unless the job is running.
local function slot_ends(jid) -- cold
  local state, queue, grace, stored, expires = unpack(try('hmget', job_key(jid), 'state', 'queue',
    'grace', 'x:o', 'expires'))
  if state ~= 'running' or not queue then
    return
  end
  local ends = finite(try('zscore', queue_key(queue, 'locks'), jid))
  if not ends or ends > now or is_sudden(grace, stored) or in_grace(grace, expires, ends) then
    return ends
  end
  return ends + finite(try('hget', prefix .. 'config', 'grace-period'), DEFAULT_GRACE_PERIOD)
end

-- Checks holders whose locks seem to have expired. Frees the slots of jobs that lost their locks.
local function heal_limit(limit) -- cold
  local held = limit_key(limit.name, 'held')
  limit.healed = true
  local ended = try('zrangebyscore', held, '-inf', stamp, 'LIMIT', 0, LOOKED_UP)
  for i = 1, #ended do
    local ends = slot_ends(ended[i])
    if ends and ends > now then
      try('zadd', held, slot_end(ends), ended[i])
    elseif try('zrem', held, ended[i]) == 1 then
      limit.room = limit.room + 1
    end
  end
end

-- Returns the time when a limit has room for one more job, or nil if that is now. A job that
-- already holds a slot needs no other. If no slot is free, this is the first possible lock expiry,
-- but at least a second from now.
local function limit_opens(limit, jid) -- cold
  local opens = limit.hold or limit.rate > 0 and rate_opens(limit)
  if opens then
    return opens
  elseif limit.room <= 0 and not limit.healed then
    heal_limit(limit)
  end
  if limit.room > 0 then
    return
  end
  local held = limit_key(limit.name, 'held')
  if jid and type(try('zscore', held, jid)) == 'string' then
    return
  end
  limit.ends = limit.ends or finite(try('zrange', held, 0, 0, 'WITHSCORES')[2], now)
  return math.max(limit.ends, now + 1)
end

-- Returns parked jobs to work if their limit has room again. Returns their number.
local function limit_freed(name) -- cold
  return try('exists', limit_key(name, 'wait')) == 1 and return_parked(read_limit(name, 1)) or 0
end

-- Must be called when a job with limits has left its place, in any state: another job may take the
-- room it had or waited for.
local function leave_limits(jid, stored) -- cold
  try('hdel', job_key(jid), 'x:parked')
  for _, name in ipairs(limits_of(stored)) do
    try('zrem', limit_key(name, 'held'), jid)
    try('zrem', limit_key(name, 'wait'), jid)
    limit_freed(name)
  end
end

-- Must be called when the jobs of these items have stopped running. The items have the jobs'
-- options, if any. A job that any caller may end may have been parked.
local function stop_all_limited(items)
  local found, jids, seen = {}, {}, {}
  for i = 1, #items do
    local item = items[i]
    local stored = item.stored
    if stored and item.anybody then
      leave_limits(item.jid, stored)
    elseif stored then
      local its = seen[stored] or none
      if its == none and has_option(stored, LIMITED) then
        its = limits_of(stored)
        seen[stored] = its
      end
      for at = 1, #its do
        local name = its[at]
        if not jids[name] then
          jids[name], found[#found + 1] = {}, name
        end
        jids[name][#jids[name] + 1] = item.jid
      end
    end
  end
  for i = 1, #found do
    local freed = try('zrem', limit_key(found[i], 'held'), unpack(jids[found[i]]))
    if type(freed) == 'number' and freed > 0 then
      limit_freed(found[i])
    end
  end
end

-- The same for one job with these options, or false.
local function stop_limited(jid, stored) -- cold
  stop_all_limited({{jid = jid, stored = stored}})
end

-- Holds a job's named limits, or all if none are named, for some seconds; longer holds stay.
-- Reports whether there are any.
local function throttle(stored, named_limits, seconds) -- cold
  local wanted, found = set_of(named_limits, 1), false
  for _, name in ipairs(limits_of(stored)) do
    if #named_limits == 0 or wanted[name] then
      local field, ends = name .. ' hold', now + seconds
      found = true
      if ends > finite(try('hget', prefix .. 'x:limits', field), 0) then
        try('hset', prefix .. 'x:limits', field, exact(ends))
      end
    end
  end
  return found
end
