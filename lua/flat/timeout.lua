-- timeout: expires the locks of running jobs at once. They are popped before all others.
--
-- KEYS[1]  the namespace prefix
-- ARGV     NOW, jid...
-- Returns  nil
-- Errors   Timeout() when one of them does not run; none is touched then
-- Cost     7 commands a job
-- Repeat   once
-- Needs    exists expire get hdel hget hmget hset lindex lpush lrange ltrim publish rpush sadd
--          sismember srem time zadd zcard zpopmax zpopmin zrange zrangebyscore zrem zrevrange
--          zscore

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





local function entry(at, what, details)
  return '[' .. string.format('%d', at) .. ',' .. what .. (details and ',' .. details or '') .. ']'
end
local seldom1





local unheard = 0



seldom1 = function(which, ...)
if which == 'trim_history' then
local key, length, cap = ...
local function finite(text, default)
  local n = text and tonumber(text)
  if n and n - n == 0 then
    return n
  end
  return default
end
  cap = cap or finite((try('hget', prefix .. 'config', 'max-job-history')), 100)
  if cap > 0 and length > cap then
    local first = call('lindex', key, 0)
    call('ltrim', key, -math.max(cap - 1, 1), -1)
    call('lpush', key, first)
  end
elseif which == 'move_history' then
local jid, text = ...
local function finite(text, default)
  local n = text and tonumber(text)
  if n and n - n == 0 then
    return n
  end
  return default
end
local function may_write(key)
  return not redis.acl_check_cmd or redis.acl_check_cmd('del', key)
end
local function list_of(text)
  if not text then
    return {}
  end
  local ok, list = pcall(cjson.decode, text)
  if ok and type(list) == 'table' then
    return list
  end
  return {}
end
local function move_stage(key, stage)
  local popped, failed, done = finite(stage.popped), finite(stage.failed), finite(stage.done)
  local queue = cjson.encode({q = (type(stage.q) == 'string' and stage.q or nil)})
  try('rpush', key, ('[' .. string.format('%d', (finite(stage.put, 0))) .. ',"put"' .. (queue and ',' .. queue or '') .. ']'))
  if popped then
    local worker = cjson.encode({worker = (type(stage.worker) == 'string' and stage.worker or nil)})
    try('rpush', key, ('[' .. string.format('%d', popped) .. ',"popped"' .. (worker and ',' .. worker or '') .. ']'))
  end
  if failed then
    try('rpush', key, entry(failed, '"failed"'))
  end
  if done then
    try('rpush', key, entry(done, '"done"'))
  end
end
  local key = prefix .. 'j:' .. jid .. '-history'
  if not may_write(key) then
    return
  end
  call('hdel', prefix .. 'j:' .. jid, 'history')
  for _, stage in ipairs(list_of(text)) do
    if type(stage) == 'table' then
      move_stage(key, stage)
    end
  end
elseif which == 'wake' then
local queue = ...
local function finite(text, default)
  local n = text and tonumber(text)
  if n and n - n == 0 then
    return n
  end
  return default
end
local function note_missing(name, queue)
  local key = prefix .. 'x:listed:' .. name
  if try('exists', key) == 1 then
    try('hset', key, queue, '1')
  end
end
  local waiting, list, lapses = prefix .. 'x:idle:' .. queue, nil, nil
  local woken = false
  for i = 1, 2 * 100 do
    local from = list and (prefix .. 'x:list:' .. list) or waiting
    local popped = i <= 100 and try('zpopmin', from) or try('zpopmax', from)
    local name = popped[1]
    if name and string.byte(name) == 1 then
      list, lapses = string.sub(name, 2), popped[2]
    elseif name then
      local idle = try('srem', prefix .. 'x:idle', name) == 1
      woken = idle and finite(try('publish', prefix .. ('x:wake:' .. name), queue), 0) > 0
      if woken then
        break
      end
      unheard = unheard + 1
    elseif list then
      note_missing(list, queue)
      list = nil
    else
      break
    end
  end
  if list then
    try('zadd', waiting, lapses, '\1' .. list)
  end
  return woken
elseif which == 'stop_limited' then
local jid, stored = ...
local function finite(text, default)
  local n = text and tonumber(text)
  if n and n - n == 0 then
    return n
  end
  return default
end
local none = {}
local function has_option(text, letter)
  return string.find(text, '^%a*' .. letter) ~= nil
end
local function split_options(text)
  local letters, body = string.match(text or '', '^(%a+)|(.*)$')
  local ok, values = pcall(cjson.decode, body or '')
  if ok and type(values) == 'table' then
    return letters, values
  end
  return '', {}
end
local function wake_for(queue, delay)
  return delay < 3600 and seldom1('wake', queue)
end
local function is_claimed(queue, due, worker)
  local held = try('get', prefix .. 'x:due:' .. queue)
  if type(held) ~= 'string' then
    return false
  end
  local until_then, holder = string.match(held, '^(%S+) (.*)$')
  local at = tonumber(until_then)
  return at and holder ~= worker and at > now and at <= due and
    try('sismember', prefix .. 'x:idle', holder) == 1
end
local function note_filled(queue, known)
  if (known or call('exists', prefix .. 'x:empty') == 1)
    and try('sadd', prefix .. 'x:filled', queue) == 1 then
    call('expire', prefix .. 'x:filled', 1)
  end
end
local function limit_key(name, part)
  return prefix .. 'x:limit:' .. name .. ':' .. part
end
local function limits_of(text)
  local _, values = split_options(text)
  local found, seen = {}, {}
  for _, name in ipairs(type(values.c) == 'table' and values.c or none) do
    if type(name) == 'string' and not seen[name] and #found < 8 then
      seen[name], found[#found + 1] = true, name
    end
  end
  return found
end
local function parse_limit(text)
  local max, rate, per = string.match(text or '', '^(%d+) (%d+) (%S+)$')
  max, rate, per = finite(max, 0), finite(rate, 0), finite(per, 0)
  return max, per > 0 and rate or 0, per
end
local function read_limit(name, most)
  local family = string.match(name, '^([^/]+)/.') or name
  local stored = try('hmget', prefix .. 'x:limits', name, name .. ' hold', family)
  local max, rate, per = parse_limit(stored[1] or stored[3])
  local hold = finite(stored[2], 0)
  local limit = {
    name = name, max = max, rate = rate, per = per, hold = hold > now and hold,
    passed = stored[2] and hold <= now, most = most, list = limit_key(name, 'starts'),
    room = math.huge, started = 0, noted = 0, held = {},
  }
  if max > 0 then
    limit.room = max - finite(try('zcard', limit_key(name, 'held')), 0)
  end
  return limit
end
local function noted_time(text)
  local time = finite(text)
  return time and time <= now + 1 and time or nil
end
local function rate_opens(limit)
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
local function slot_end(ends)
  return string.format('%.0f', math.ceil(ends))
end
local function slot_ends(jid)
  local job = try('hmget', prefix .. 'j:' .. jid, 'state', 'queue', 'grace', 'x:o')
  if job[1] ~= 'running' or not job[2] then
    return
  end
  local ends = finite(try('zscore', prefix .. 'q:' .. job[2] .. '-locks', jid))
  if not ends or ends > now or tonumber(job[3]) == 1 or has_option(job[4] or '', 'l') then
    return ends
  end
  return ends + finite(try('hget', prefix .. 'config', 'grace-period'), 10)
end
local function heal_limit(limit)
  local held = limit_key(limit.name, 'held')
  limit.healed = true
  local ended = try('zrangebyscore', held, '-inf', stamp, 'LIMIT', 0, 20)
  for i = 1, #ended do
    local ends = slot_ends(ended[i])
    if ends and ends > now then
      try('zadd', held, slot_end(ends), ended[i])
    elseif try('zrem', held, ended[i]) == 1 then
      limit.room = limit.room + 1
    end
  end
end
local function limit_opens(limit, jid)
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
local function parked_by(state, time, parked)
  local since, name = string.match(type(parked) == 'string' and parked or '', '^(%S*) (.+)$')
  return state == 'scheduled' and since == (time or '') and name or nil
end
local function parked_in(jid, name)
  local job = try('hmget', prefix .. 'j:' .. jid, 'state', 'queue', 'time', 'x:parked')
  return parked_by(job[1], job[3], job[4]) == name and job[2] or nil
end
local function unpark(jid, queue, score)
  local work = prefix .. 'q:' .. queue .. '-work'
  if type(try('zcard', work)) == 'table' or try('zrem', prefix .. 'q:' .. queue .. '-scheduled', jid) ~= 1 then
    return false
  end
  call('zadd', work, score, jid)
  call('hset', prefix .. 'j:' .. jid, 'state', 'waiting')
  call('hdel', prefix .. 'j:' .. jid, 'x:parked')
  note_filled(queue)
  seldom1('wake', queue)
  return true
end
local function arm(jid, queue, at, paused)
  local scheduled = prefix .. 'q:' .. queue .. '-scheduled'
  local due = finite(try('zscore', scheduled, jid))
  if due and due > at then
    try('zadd', scheduled, string.format('%.17g', at), jid)
    if not paused and not is_claimed(queue, at, '') then
      wake_for(queue, at - now)
    end
  end
end
local function return_parked(limit)
  local wait, returned, passed = limit_key(limit.name, 'wait'), 0, 0
  for _ = 1, 100 do
    local best = try('zrevrange', wait, passed, passed, 'WITHSCORES')
    local jid, score = best[1], best[2]
    if not jid then
      return returned
    end
    local queue = parked_in(jid, limit.name)
    local opens = queue and limit_opens(limit)
    if queue and try('sismember', prefix .. 'paused_queues', queue) == 1 then
      passed = passed + 1
      arm(jid, queue, opens or now, true)
    else
      if opens then
        arm(jid, queue, opens)
        return returned
      end
      try('zrem', wait, jid)
      if queue and unpark(jid, queue, score) then
        limit.started, limit.room = limit.started + 1, limit.room - 1
        returned = returned + 1
      end
    end
  end
  return returned
end
local function limit_freed(name)
  if try('exists', limit_key(name, 'wait')) == 1 then
    return_parked(read_limit(name, 1))
  end
end
local function free_slots(names_in_order, jids)
  for _, name in ipairs(names_in_order) do
    local freed = try('zrem', limit_key(name, 'held'), unpack(jids[name]))
    if type(freed) == 'number' and freed > 0 then
      limit_freed(name)
    end
  end
end
  if not stored or not has_option(stored, 'c') then
    return
  end
  local found, jids = limits_of(stored), {}
  for i = 1, #found do
    jids[found[i]] = {jid}
  end
  free_slots(found, jids)
end
end

local running, jids = {}, {}
for i = 2, #ARGV do
  local jid = ARGV[i]
  local job = call('hmget', prefix .. 'j:' .. jid, 'queue', 'state', 'worker', 'history', 'x:o')
  if not job[2] then
    do
      local area, message = 'Timeout', 'Job ' .. jid .. ' does not exist'
      error(area .. '(): ' .. message)
    end
  elseif job[2] ~= 'running' then
    do
      local area, message = 'Timeout', 'Job ' .. jid .. ' not running'
      error(area .. '(): ' .. message)
    end
  end
  if not job[1] then
    do
      local area, message = 'Timeout', 'Job ' .. jid .. ' is in no queue'
      error(area .. '(): ' .. message)
    end
  end
  call('zcard', prefix .. 'q:' .. job[1] .. '-work')
  if not running[jid] then
    running[jid] = job
    jids[#jids + 1] = jid
  end
end
do
  if redis.acl_check_cmd and not redis.acl_check_cmd('publish', prefix .. 'log') then
    error({err = 'NOPERM this user may not publish to the channel ' .. prefix .. 'log'})
  end
end
for _, jid in ipairs(jids) do
  local job = running[jid]
  local queue, worker = job[1], job[3] or ''
  try('zrem', prefix .. 'q:' .. queue .. '-locks', jid)
  call('zadd', prefix .. 'q:' .. queue .. '-work', '+inf', jid)
  do
    local jid, text = jid, job[4]
    if text then
      seldom1('move_history', jid, text)
    end
  end
  do
    local key, text, cap = prefix .. 'j:' .. jid, entry(now, '"timed-out"')
    local length = try('rpush', key .. '-history', text)
    if length ~= 1 and length ~= 2 and type(length) == 'number' and (not cap or length > cap) then
      seldom1('trim_history', key .. '-history', length, cap)
    end
  end
  call('hset', prefix .. 'j:' .. jid, 'state', 'stalled', 'expires', '0')
  do
    local jid, worker = jid, worker
    local message = cjson.encode({jid = jid, event = 'lock_lost', worker = worker})
    try('publish', prefix .. ('w:' .. worker), message)
    try('publish', prefix .. 'log', message)
  end
  seldom1('wake', queue)
  if job[5] then
    seldom1('stop_limited', jid, job[5])
  end
end

