-- release: requeues a worker's job without using up a retry.
--
-- KEYS[1]  the namespace prefix
-- ARGV     NOW, jid, queue, worker, delay, data [, since]
--          since: only a job that runs since this time, unless it is ''
-- Returns  the jid
-- Errors   Release() when the job is not this worker's, not running, or runs in another queue
-- Cost     7 commands
-- Repeat   once
-- Needs    del exists expire get hdel hexists hget hmget hset lrange publish rpush sadd sismember
--          srem time zadd zcard zpopmax zpopmin zrange zrangebyscore zrem zrevrange zscore

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

local call = redis.call
local prefix = KEYS[1]
local try = redis.pcall
local function write_first(...)
  local reply = try(...)
  if type(reply) == 'table' and reply.err then
    do
      call('del', prefix .. 'x:none')
    end
    return try(...)
  end
  return reply
end
local function finite(text, default)
  local n = text and tonumber(text)
  if n and n - n == 0 then
    return n
  end
  return default
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





local unheard = 0
local seldom1




















seldom1 = function(which, ...)
if which == 'wake' then
local queue = ...
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
elseif which == 'wake_for' then
local queue, delay = ...
  return delay < 3600 and seldom1('wake', queue)
elseif which == 'stop_limited' then
local jid, stored = ...
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
      seldom1('wake_for', queue, at - now)
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
elseif which == 'throttle' then
local stored, named_limits, seconds = ...
local none = {}
local function split_options(text)
  local letters, body = string.match(text or '', '^(%a+)|(.*)$')
  local ok, values = pcall(cjson.decode, body or '')
  if ok and type(values) == 'table' then
    return letters, values
  end
  return '', {}
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
  local wanted, found = {}, false
  for _, name in ipairs(named_limits) do
    wanted[name] = true
  end
  for _, name in ipairs(limits_of(stored)) do
    if #named_limits == 0 or wanted[name] then
      local field, ends = name .. ' hold', now + seconds
      found = true
      if ends > finite(try('hget', prefix .. 'x:limits', field), 0) then
        try('hset', prefix .. 'x:limits', field, string.format('%.17g', ends))
      end
    end
  end
  return found
elseif which == 'move_history' then
local jid, text = ...
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
local function entry(at, what, details)
  return '[' .. string.format('%d', at) .. ',' .. what .. (details and ',' .. details or '') .. ']'
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
elseif which == 'result_field' then
local state, time, result = ...
  return state .. '|' .. (time or '') .. '|' .. result
end
end



local function not_owned(area, jid, owner, state, worker, time, since)
  if not state then
    return 'Job ' .. jid .. ' does not exist'
  elseif state ~= 'running' then
    local words = {Fail = ' not', Heartbeat = ' not'}
    return 'Job ' .. jid .. (words[area] or ' is not') .. ' currently running: ' .. state
  elseif owner ~= worker or since and since ~= time then
    local words = {
      Fail = ' running with', Heartbeat = ' given out to', Retry = ' has been given to',
    }
    local taken = (words[area] or ' has been handed out to') .. ' another worker: '
    local again = owner == worker and ', at ' .. tostring(time) or ''
    return 'Job ' .. jid .. taken .. tostring(owner) .. again
  end
end

local function read_owned(area, item, worker)
  local key = prefix .. 'j:' .. item.jid
  local job = try('hmget', key, 'queue', 'state', 'worker', 'priority', 'remaining', 'history',
    'grace', 'time', 'x:o')
  local problem = job.err or not item.anybody and
    not_owned(area, item.jid, job[3], job[2], worker, job[8], item.since)
  if problem then
    return problem
  elseif not job[1] then
    return 'Job ' .. item.jid .. ' is in no queue'
  elseif item.here and item.queue ~= job[1] then
    return 'Job ' .. item.jid .. ' running in another queue: ' .. job[1]
  end
  item.key, item.current, item.priority = key, job[1], job[4]
  item.remaining, item.history, item.grace = math.floor(finite(job[5], 0)), job[6], job[7]
  item.stored = job[9]
  if item.result then
    item.ended = seldom1('result_field', 'failed', job[8], item.result)
  end
end
local function enqueue(item, queue, score)
  local state, part = 'waiting', 'work'
  if item.delay > 0 then
    state, part, score = 'scheduled', 'scheduled', string.format('%.17g', (now + item.delay))
  end
  local reply = write_first('zadd', prefix .. 'q:' .. queue .. '-' .. part, score, item.jid)
  if type(reply) == 'table' then
    return nil, reply.err
  end
  return state
end
local function release(worker, item)
  local problem, state = read_owned('Release', item, worker)
  if not problem then
    if item.throttled and item.stored and seldom1('throttle', item.stored, item.throttled, item.delay) then
      item.delay = 0
    end
    local score = finite(item.priority, 0) - (item.place or 0) / 1000000
    state, problem = enqueue(item, item.current, score)
  end
  if problem then
    return problem
  end
  do
    local item, worker, fields = item, worker, {'state', state, 'worker', '', 'expires', '0'}
    try('zrem', prefix .. 'q:' .. item.current .. '-locks', item.jid)
    try('zrem', prefix .. 'w:' .. worker .. ':jobs', item.jid)
    do
      local jid, text = item.jid, item.history
      if text then
        seldom1('move_history', jid, text)
      end
    end
    if item.grace then
      call('hdel', item.key, 'grace')
    end
    if item.data ~= '' then
      fields[#fields + 1] = 'data'
      fields[#fields + 1] = item.data
    end
    call('hset', item.key, unpack(fields))
    do
      local queue = item.current
      if try('hexists', prefix .. 'config', queue .. '-max-concurrency') == 1 then
        seldom1('wake', queue)
      end
    end
  end
  seldom1('wake_for', item.current, item.delay)
  if item.stored then
    seldom1('stop_limited', item.jid, item.stored)
  end
end

local jid
do
  local area, name, text = 'Job', 'jid', ARGV[2]
  if not text then
    local words = {
      Job = 'no jid provided', Recurring = 'no jid provided', Queue = 'no queue name provided',
    }
    do
      local area, message = area, words[area] or 'Arg "' .. name .. '" missing'
      error(area .. '(): ' .. message)
    end
  end
  jid = text
end
local queue
do
  local area, name, text = 'Release', 'queue', ARGV[3]
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
local worker
do
  local area, name, text = 'Release', 'worker', ARGV[4]
  if not text then
    local words = {
      Job = 'no jid provided', Recurring = 'no jid provided', Queue = 'no queue name provided',
    }
    do
      local area, message = area, words[area] or 'Arg "' .. name .. '" missing'
      error(area .. '(): ' .. message)
    end
  end
  worker = text
end
local item = {
  jid = jid,
  queue = queue,
  delay = number('Release', 'delay', ARGV[5]),
  data = ARGV[6],
  since = ARGV[7] ~= '' and ARGV[7] or nil,
  here = true,
}
do
  local area, name, text = 'Release', 'data', item.data
  local ok, value, problem = pcall(cjson.decode, text)
  if not ok or problem then
    do
      local area, message = area, 'Arg "' .. name .. '" missing or not JSON: ' .. string.sub(tostring(text), 1, 200)
      error(area .. '(): ' .. message)
    end
  end
end
do
  if redis.acl_check_cmd and not redis.acl_check_cmd('publish', prefix .. 'log') then
    error({err = 'NOPERM this user may not publish to the channel ' .. prefix .. 'log'})
  end
end
local problem = release(worker, item)
if problem then
  do
    local area, message = 'Release', problem
    error(area .. '(): ' .. message)
  end
end
return jid

