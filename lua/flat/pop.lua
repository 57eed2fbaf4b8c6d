-- pop: locks the next jobs of a queue for a worker: lost ones first, then by priority.
--
-- KEYS[1]  the namespace prefix
-- ARGV     NOW, queue, worker, count [, 'timed' or '' [, lock]]
-- Returns  a JSON array of at most count jobs, fewer when the queue has fewer,
--          none when it is paused or its running jobs have reached <queue>-max-concurrency.
--          Jobs whose lives have ended are dropped, at most 1000 of them; then there may be more.
--          timed: each also has put_at, when it was put, or popped before if it was given back, and
--          popped_at, since when it is this worker's; both as text. With large data, it is an array:
--          that JSON, in which beside says which data a job has; 'more' if the queue may have more
--          jobs for which there was no room, or ''; and the data. Dependents that are thousands in
--          all are not shown, but named in left_out
--          lock: for how many seconds the jobs are locked, without a grace period after that,
--          whatever their options and the queue say
-- Errors   Queue(), Pop()
-- Cost     5 commands when the queue is empty, 15 for one job (17 for one in sixteen), 5 for each
--          one more; a job with a long history is expensive to read
-- Repeat   once
-- Needs    del exists expire get hdel hexists hget hincrby hkeys hmget hset hstrlen lindex llen
--          lpush lrange lrem ltrim pexpire publish rpop rpush sadd scard set sismember smembers
--          srandmember srem sscan time unlink zadd zcard zcount zincrby zmscore zpopmax zpopmin
--          zrange zrangebyscore zrem zremrangebyrank zrevrange zrevrangebyscore zscore

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


local seldom1


local function lock_time(own, general)
  return finite(own) or finite(general, 60)
end


local unheard = 0






local met_limits = false
local met_texts = false


local function joined(texts)
  if #texts == 0 then
    return '[]'
  elseif #texts == 1 then
    return '[' .. texts[1] .. ']'
  elseif #texts == 2 then
    return '[' .. texts[1] .. ',' .. texts[2] .. ']'
  end
  return '[' .. table.concat(texts, ',') .. ']'
end







local related_left



local large = {bytes = 0, text = 0}














local tellable = 200






local dropped = 0

local made_last = 0

local parked = 0
local most_bytes, taken_bytes = math.huge, 0


local function within(wanted)
  return wanted + dropped < 1000 and wanted or 1000 - dropped
end







seldom1 = function(which, ...)
if which == 'has_option' then
local text, letter = ...
  return string.find(text, '^%a*' .. letter) ~= nil
elseif which == 'note_starts' then
local limit, n = ...
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
elseif which == 'try_parked' then
local jid, queue = ...
local function note_missing(name, queue)
  local key = prefix .. 'x:listed:' .. name
  if try('exists', key) == 1 then
    try('hset', key, queue, '1')
  end
end
local function wake(queue)
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
end
local function wake_for(queue, delay)
  return delay < 3600 and wake(queue)
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
  if not ends or ends > now or tonumber(job[3]) == 1 or seldom1('has_option', job[4] or '', 'l') then
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
  wake(queue)
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
  local job = try('hmget', prefix .. 'j:' .. jid, 'state', 'time', 'x:parked')
  local name, scheduled = parked_by(job[1], job[2], job[3]), prefix .. 'q:' .. queue .. '-scheduled'
  if not name then
    return false
  end
  local due = try('zscore', scheduled, jid)
  limit_freed(name)
  return try('zscore', scheduled, jid) ~= due
elseif which == 'settle_limits' then
local function each_slice(run, operation, key, list)
  for from = 1, #list, 1000 do
    run(operation, key, unpack(list, from, math.min(from + 999, #list)))
  end
end
local function note_missing(name, queue)
  local key = prefix .. 'x:listed:' .. name
  if try('exists', key) == 1 then
    try('hset', key, queue, '1')
  end
end
local function wake(queue)
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
end
local function wake_for(queue, delay)
  return delay < 3600 and wake(queue)
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
  if not ends or ends > now or tonumber(job[3]) == 1 or seldom1('has_option', job[4] or '', 'l') then
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
  wake(queue)
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
  local returned = 0
  for _, limit in ipairs(met_limits or none) do
    each_slice(try, 'zadd', limit_key(limit.name, 'held'), limit.held)
    if limit.rate > 0 then
      seldom1('note_starts', limit, limit.noted)
    end
    if limit.passed then
      try('hdel', prefix .. 'x:limits', limit.name .. ' hold')
    end
    if limit.look or limit.passed or limit.waiting or limit.healed or limit.rate > 0 or limit.room <= 0 then
      returned = returned + return_parked(limit)
    end
  end
  met_limits = false
  return returned
elseif which == 'readable' then
local text = ...
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
  local ok, again = pcall(cjson.encode, list_of(text))
  return ok and again or nil
elseif which == 'trim_history' then
local key, length, cap = ...
  cap = cap or finite((try('hget', prefix .. 'config', 'max-job-history')), 100)
  if cap > 0 and length > cap then
    local first = call('lindex', key, 0)
    call('ltrim', key, -math.max(cap - 1, 1), -1)
    call('lpush', key, first)
  end
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
elseif which == 'unusual_entry' then
local text = ...
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
  local item = list_of(text)
  local object = item[3]
  if type(object) ~= 'table' then
    object = {data = object}
  end
  object.when = item[1]
  object.what = item[2]
  local ok, encoded = pcall(cjson.encode, object)
  return ok and encoded or '{}'
elseif which == 'sets_json' then
local jid = ...
local function array(list)
  if #list == 0 then
    return '[]'
  end
  return cjson.encode(list)
end
local function related(jid, name, left_out)
  local key, room = prefix .. 'j:' .. jid .. '-' .. name, related_left
  if room then
    local count = try('scard', key)
    if count == 0 or type(count) == 'table' then
      return '[]'
    elseif count > room then
      left_out[#left_out + 1] = name
      return '[]'
    end
    related_left = room - count
  end
  return array(try('smembers', key))
end
  local left_out = {}
  local text = ',"dependents":' .. related(jid, 'dependents', left_out) ..
    ',"dependencies":' .. related(jid, 'dependencies', left_out)
  return text .. (#left_out > 0 and ',"left_out":' .. array(left_out) or '')
elseif which == 'extra_members' then
local jid, stored, state, time = ...
local function split_options(text)
  local letters, body = string.match(text or '', '^(%a+)|(.*)$')
  local ok, values = pcall(cjson.decode, body or '')
  if ok and type(values) == 'table' then
    return letters, values
  end
  return '', {}
end
local function options_member(text)
  local letters = split_options(text)
  if letters == '' then
    return ''
  end
  return ',"x":' .. string.match(text, '|(.*)$')
end
local function parked_by(state, time, parked)
  local since, name = string.match(type(parked) == 'string' and parked or '', '^(%S*) (.+)$')
  return state == 'scheduled' and since == (time or '') and name or nil
end
local function parked_member(jid, stored, state, time)
  if state ~= 'scheduled' or not seldom1('has_option', stored, 'c') then
    return ''
  end
  local name = parked_by(state, time, try('hget', prefix .. 'j:' .. jid, 'x:parked'))
  return name and ',"parked":' .. cjson.encode(name) or ''
end
local function progress_json(text)
  local values = {string.match(text, '^([^|]+)|([^|]+)|([^|]+)|([^|]+)|(.*)$')}
  for i = 1, 4 do
    local n = finite(values[i])
    if not n then
      return
    end
    values[i] = string.format('%.17g', n)
  end
  return '{"done":' .. values[1] .. ',"total":' .. values[2] .. ',"attempt":' .. values[3] ..
    ',"time":' .. values[4] .. ',"note":' .. cjson.encode(values[5]) .. '}'
end
local function progress_member(jid, stored)
  local text = seldom1('has_option', stored, 'p') and try('hget', prefix .. 'j:' .. jid, 'x:progress')
  local shown = type(text) == 'string' and progress_json(text)
  return shown and ',"progress":' .. shown or ''
end
  return options_member(stored) .. progress_member(jid, stored) ..
    parked_member(jid, stored, state, time)
elseif which == 'set_beside' then
local job = ...
  local data = job[6]
  if type(data) ~= 'string' or #data < 4096 then
    return ''
  end
  large[#large + 1] = data
  large.bytes, job[6] = large.bytes + #data, ''
  return ',"beside":' .. #large
elseif which == 'with_large' then
local text, rest = ...
  if #large == 0 and rest == '' then
    return text
  end
  return {text, rest, unpack(large)}
elseif which == 'is_over' then
local jid, stored, state = ...
local function split_options(text)
  local letters, body = string.match(text or '', '^(%a+)|(.*)$')
  local ok, values = pcall(cjson.decode, body or '')
  if ok and type(values) == 'table' then
    return letters, values
  end
  return '', {}
end
local function earlier(a, b)
  return a and b and math.min(a, b) or a or b
end
local function end_in_state(values, state, since)
  local gone, complete, failed = finite(values.t), finite(values.k), finite(values.K)
  if state == 'complete' then
    return earlier(gone, complete and since + complete)
  elseif state == 'failed' and failed then
    return failed >= 0 and since + failed or nil
  elseif state ~= 'failed' and state ~= 'running' then
    return earlier(gone, finite(values.s))
  end
  return gone
end
local function is_last_put(jid, at)
  local entries = try('lrange', prefix .. 'j:' .. jid .. '-history', 0, -1)
  for i = #entries, 1, -1 do
    local when = string.match(entries[i], '^%[(%-?%d+)[%d.]*,"put"')
    if when then
      return tonumber(when) <= finite(at, 0)
    end
  end
  return true
end
local function end_of_life(jid, stored, state, since)
  local _, values = split_options(stored)
  local ends = end_in_state(values, state, since)
  if ends and ends <= now and (values.s or values.t) and not is_last_put(jid, values.put) then
    values.s, values.t = nil, nil
    ends = end_in_state(values, state, since)
  end
  return ends
end
  return (string.find(stored, '^%a*[stkK]') ~= nil) and (end_of_life(jid, stored, state, now) or math.huge) <= now
elseif which == 'begin_day' then
local kind, day, queue = ...
local function count_existing(keys)
  local count = 0
  for from = 1, #keys, 1000 do
    count = count + call('exists', unpack(keys, from, math.min(from + 999, #keys)))
  end
  return count
end
local function expire_stats(key, day)
  local keep = day + 86400 * (1 + finite(try('hget', prefix .. 'config', 'stats-history'), 30)) - now
  try('expire', key, string.format('%.0f', math.min(math.max(keep, 60), 1e10)))
end
local function buckets_of(key)
  local buckets, fields = {}, try('hkeys', key)
  for i = 1, #fields do
    if string.find(fields[i], '^[smhd]%-?%d+$') then
      buckets[#buckets + 1] = fields[i]
    end
  end
  return buckets, #fields > 0
end
local function prune_histograms(kind, day, queue)
  local from = finite(try('hget', prefix .. 'config', 'histogram-history'), 7)
  local to = math.min(finite(try('hget', prefix .. 'config', 'stats-history'), 30), from + 90)
  local keys = {}
  for age = math.max(from, 0) + 1, to do
    keys[#keys + 1] = prefix .. 's:' .. kind .. ':' .. string.format('%d', (day - 86400 * age)) .. ':' .. queue
  end
  local left = #keys > 0 and count_existing(keys) or 0
  for i = 1, left > 0 and #keys or 0 do
    local buckets, exists = buckets_of(keys[i])
    if exists then
      left = #buckets > 0 and left - 1 or 0
      do
        local run, operation, key, list = call, 'hdel', keys[i], buckets
        for from = 1, #list, 1000 do
          run(operation, key, unpack(list, from, math.min(from + 999, #list)))
        end
      end
    end
    if left == 0 then
      return
    end
  end
end
  expire_stats(prefix .. 's:' .. kind .. ':' .. string.format('%d', day) .. ':' .. queue, day)
  prune_histograms(kind, day, queue)
elseif which == 'drop_expired' then
local jid, state = ...
local function split_options(text)
  local letters, body = string.match(text or '', '^(%a+)|(.*)$')
  local ok, values = pcall(cjson.decode, body or '')
  if ok and type(values) == 'table' then
    return letters, values
  end
  return '', {}
end
local function finite_values(values)
  local found = {}
  for key, value in pairs(values) do
    if type(value) == 'table' then
      value = finite_values(value)
    end
    found[key] = (type(value) ~= 'number' or finite(value)) and value
  end
  return found
end
local function join_options(letters, values)
  local ok, body = pcall(cjson.encode, values)
  return letters .. '|' .. (ok and body or cjson.encode(finite_values(values)))
end
local function without_letter(text, letter)
  local letters, body = string.match(text, '^(%a+)(|.*)$')
  letters = string.gsub(letters, letter, '')
  return letters == '' and '' or letters .. body
end
local function publish(channel, message)
  return try('publish', prefix .. channel, message)
end
local function note_missing(name, queue)
  local key = prefix .. 'x:listed:' .. name
  if try('exists', key) == 1 then
    try('hset', key, queue, '1')
  end
end
local function wake(queue)
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
end
local function wake_for(queue, delay)
  return delay < 3600 and wake(queue)
end
local function wake_for_slot(queue)
  if try('hexists', prefix .. 'config', queue .. '-max-concurrency') == 1 then
    wake(queue)
  end
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
local function leave_queue(queue, jid)
  try('zrem', prefix .. 'q:' .. queue .. '-work', jid)
  try('zrem', prefix .. 'q:' .. queue .. '-locks', jid)
  try('zrem', prefix .. 'q:' .. queue .. '-scheduled', jid)
  try('zrem', prefix .. 'q:' .. queue .. '-depends', jid)
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
  if not ends or ends > now or tonumber(job[3]) == 1 or seldom1('has_option', job[4] or '', 'l') then
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
  wake(queue)
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
local function leave_limits(jid, stored)
  try('hdel', prefix .. 'j:' .. jid, 'x:parked')
  for _, name in ipairs(limits_of(stored)) do
    try('zrem', limit_key(name, 'held'), jid)
    try('zrem', limit_key(name, 'wait'), jid)
    limit_freed(name)
  end
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
local function names_of(text)
  local found = {}
  for _, name in ipairs(list_of(text)) do
    if type(name) == 'string' or type(name) == 'number' then
      found[#found + 1] = tostring(name)
    end
  end
  return found
end
local function entry(at, what, details)
  return '[' .. string.format('%d', at) .. ',' .. what .. (details and ',' .. details or '') .. ']'
end
local function record(key, text, cap)
  local length = try('rpush', key .. '-history', text)
  if length ~= 1 and length ~= 2 and type(length) == 'number' and (not cap or length > cap) then
    seldom1('trim_history', key .. '-history', length, cap)
  end
  return length
end
local function adopt_history(jid, text)
  if text then
    seldom1('move_history', jid, text)
  end
end
local function fair_share(text)
  local _, values = split_options(text)
  local share = values.g
  if type(share) == 'table' and type(share.t) == 'string' and share.t ~= '' then
    return share.t, math.min(math.max(finite(share.w, 1), 0.01), 100)
  end
end
local function first_turn(queue, priority)
  local first = try('zrevrangebyscore', prefix .. 'q:' .. queue .. '-work', string.format('%.17g', (priority - 0.5)),
    '(' .. string.format('%.17g', (priority - 1)), 'WITHSCORES', 'LIMIT', 0, 1)
  local score = finite(first[2])
  return score and math.max(priority - 0.5 - score, 0), first.err
end
local function turn_step(priority)
  local _, exponent = math.frexp(math.abs(priority) + 1)
  return 2 ^ (exponent - 45)
end
local function turns_key(queue, priority)
  return prefix .. 'x:fair:' .. string.format('%.17g', priority) .. ':' .. queue
end
local function write_turn(key, tenant, ends, waits, passed)
  try('zadd', key, ends, tenant)
  if not waits then
    if try('zcard', key) ~= 1 then
      try('unlink', key)
      try('zadd', key, ends, tenant)
    end
    try('expire', key, 604800)
  end
  for _, other in ipairs(passed) do
    if other ~= tenant then
      try('zrem', key, other)
    end
  end
end
local function fair_score(queue, priority, stored, known)
  local tenant, weight = fair_share(stored)
  priority = finite(priority, 0)
  if not tenant or math.abs(priority) > 10000 then
    return
  end
  local key = turns_key(queue, priority)
  local first, waits, passed = known[key], true, {}
  if not first then
    local damaged
    first, damaged = first_turn(queue, priority)
    if damaged then
      return
    end
    waits, first = first ~= nil, first or 0
    passed = waits and try('zrangebyscore', key, '-inf', string.format('%.17g', first), 'LIMIT', 0, 2) or {}
    known[key] = first
  end
  local last = waits and finite(try('zscore', key, tenant), 0) or 0
  local turn = math.min(math.max(first, last), 0.49)
  write_turn(key, tenant, string.format('%.17g', (turn + turn_step(priority) / weight)), waits, passed)
  return string.format('%.17g', (priority - 0.5 - turn))
end
local function leave_turns(queue, priority)
  priority = finite(priority, 0)
  local first, damaged = first_turn(queue, priority)
  local key = turns_key(queue, priority)
  if first then
    try('expire', key, 604800)
  elseif not damaged then
    try('unlink', key)
  end
end
local function score_of(queue, priority, stored, turns)
  return stored and seldom1('has_option', stored, 'g') and fair_score(queue, priority, stored, turns) or
    (finite(priority, 0) - now / 10000000000)
end
local function remove_tags(jid, tags, first)
  for i = first, #tags do
    do
      local jid, tag = jid, tags[i]
      if try('zrem', prefix .. 't:' .. tag, jid) == 1 then
        if finite(try('zincrby', prefix .. 'tags', -1, tag), 1) <= 0 then
          call('zrem', prefix .. 'tags', tag)
        end
      end
    end
  end
end
local function earlier(a, b)
  return a and b and math.min(a, b) or a or b
end
local function end_in_state(values, state, since)
  local gone, complete, failed = finite(values.t), finite(values.k), finite(values.K)
  if state == 'complete' then
    return earlier(gone, complete and since + complete)
  elseif state == 'failed' and failed then
    return failed >= 0 and since + failed or nil
  elseif state ~= 'failed' and state ~= 'running' then
    return earlier(gone, finite(values.s))
  end
  return gone
end
local function is_last_put(jid, at)
  local entries = try('lrange', prefix .. 'j:' .. jid .. '-history', 0, -1)
  for i = #entries, 1, -1 do
    local when = string.match(entries[i], '^%[(%-?%d+)[%d.]*,"put"')
    if when then
      return tonumber(when) <= finite(at, 0)
    end
  end
  return true
end
local function end_of_life(jid, stored, state, since)
  local _, values = split_options(stored)
  local ends = end_in_state(values, state, since)
  if ends and ends <= now and (values.s or values.t) and not is_last_put(jid, values.put) then
    values.s, values.t = nil, nil
    ends = end_in_state(values, state, since)
  end
  return ends
end
local function is_forgotten(stored, state)
  local letter = state == 'complete' and 'k' or state == 'failed' and 'K'
  if not letter or not seldom1('has_option', stored, letter) then
    return false
  end
  local _, values = split_options(stored)
  return finite(values[letter]) == 0
end
local function note_life(jid, ends)
  if ends then
    try('zadd', prefix .. 'x:until', string.format('%.17g', ends), jid)
  else
    try('zrem', prefix .. 'x:until', jid)
  end
end
local function undepend(jid, other)
  try('srem', prefix .. 'j:' .. other .. '-dependents', jid)
  try('srem', prefix .. 'j:' .. jid .. '-dependencies', other)
end
local function free(jid, released)
  local key = prefix .. 'j:' .. jid
  local job = try('hmget', key, 'queue', 'priority', 'scheduled', 'x:undelayed', 'x:o')
  local queue, due = job[1], released and not job[4] and finite(job[3])
  if not queue then
    return
  end
  local state, place, score = 'scheduled', prefix .. 'q:' .. queue .. '-scheduled', job[3]
  if not due then
    state, place, score = 'waiting', prefix .. 'q:' .. queue .. '-work', score_of(queue, job[2], job[5], {})
  end
  local reply = try('zadd', place, score, jid)
  if type(reply) == 'table' then
    return reply.err
  end
  try('zrem', prefix .. 'q:' .. queue .. '-depends', jid)
  call('hset', key, 'state', state)
  if due then
    call('hdel', key, 'scheduled')
  end
  if job[4] then
    call('hdel', key, 'x:undelayed')
  end
  note_filled(queue)
  wake_for(queue, due and due - now or 0)
end
local function expire_stats(key, day)
  local keep = day + 86400 * (1 + finite(try('hget', prefix .. 'config', 'stats-history'), 30)) - now
  try('expire', key, string.format('%.0f', math.min(math.max(keep, 60), 1e10)))
end
local function tally_expired(queue)
  local day = (now - now % 86400)
  local key = prefix .. 'x:stats:' .. string.format('%d', day) .. ':' .. queue
  if try('hincrby', key, 'expired', 1) == 1 then
    expire_stats(key, day)
  end
end
local function add_failure(jid, group)
  local reply = write_first('lpush', prefix .. 'f:' .. group, jid)
  if type(reply) == 'table' then
    return reply.err
  end
  try('sadd', prefix .. 'failures', group)
end
local function uncount_failure(queue, failure)
  local at = finite(failure.when)
  if at and queue then
    do
      local day, queue, field, by = (at - at % 86400), queue, 'failed', -1
      local key = prefix .. 's:stats:' .. string.format('%d', day) .. ':' .. queue
      if try('hincrby', key, field, by) == by then
        do
          local key, day = key, day
          local keep = day + 86400 * (1 + finite(try('hget', prefix .. 'config', 'stats-history'), 30)) - now
          try('expire', key, string.format('%.0f', math.min(math.max(keep, 60), 1e10)))
        end
      end
    end
  end
end
local function count_from(group, failure, length)
  local jid = try('lindex', prefix .. 'f:' .. group, math.floor(length / 2))
  local middle = type(jid) == 'string' and list_of(try('hget', prefix .. 'j:' .. jid, 'failure')) or {}
  return finite(failure.when, 0) < finite(middle.when, 0) and -1 or 1
end
local function leave_group(jid, failure, count)
  local group = failure.group
  if type(group) == 'string' then
    local key = prefix .. 'f:' .. group
    local length = count and 0 or finite(try('llen', key), 0)
    if length >= 10000 then
      count = count_from(group, failure, length)
    end
    try('lrem', key, count or 0, jid)
    do
      local group = group
      if call('exists', prefix .. 'f:' .. group) == 0 then
        try('srem', prefix .. 'failures', group)
      end
    end
  end
end
local function unfile_failures(jids)
  do
    local run, operation, key, list = try, 'zrem', prefix .. 'failed-jobs-list', jids
    for from = 1, #list, 1000 do
      run(operation, key, unpack(list, from, math.min(from + 999, #list)))
    end
  end
end
local function mark_exhausted(jid, queue, group, failure, cap)
  do
    local key, text, cap = prefix .. 'j:' .. jid, entry(now, '"failed"', cjson.encode({group = group})), cap
    local length = try('rpush', key .. '-history', text)
    if length ~= 1 and length ~= 2 and type(length) == 'number' and (not cap or length > cap) then
      seldom1('trim_history', key .. '-history', length, cap)
    end
  end
  call('hset', prefix .. 'j:' .. jid, 'state', 'failed', 'worker', '', 'expires', '', 'failure', failure)
  do
    local queue = queue
    do
      local day, queue, field, by = (now - now % 86400), queue, 'failures', 1
      local key = prefix .. 's:stats:' .. string.format('%d', day) .. ':' .. queue
      if try('hincrby', key, field, by) == by then
        do
          local key, day = key, day
          local keep = day + 86400 * (1 + finite(try('hget', prefix .. 'config', 'stats-history'), 30)) - now
          try('expire', key, string.format('%.0f', math.min(math.max(keep, 60), 1e10)))
        end
      end
    end
    do
      local day, queue, field, by = (now - now % 86400), queue, 'failed', 1
      local key = prefix .. 's:stats:' .. string.format('%d', day) .. ':' .. queue
      if try('hincrby', key, field, by) == by then
        do
          local key, day = key, day
          local keep = day + 86400 * (1 + finite(try('hget', prefix .. 'config', 'stats-history'), 30)) - now
          try('expire', key, string.format('%.0f', math.min(math.max(keep, 60), 1e10)))
        end
      end
    end
  end
  do
    local channel, jid = 'failed', jid
    if (type(try('zscore', prefix .. 'tracked', jid)) == 'string') then
      try('publish', prefix .. channel, jid)
    end
  end
end
local function read_failing()
  local values = try('hmget', prefix .. 'config', 'max-job-history', 'jobs-failed-history',
    'jobs-failed-history-count')
  return finite(values[1], 100), ((values[2] or values[3]) and {seconds = finite(values[2], -1), count = finite(values[3], -1)})
end
local function delete_failed(jid, forced)
  local key = prefix .. 'j:' .. jid
  local job = try('hmget', key, 'state', 'queue', 'failure', 'tags', 'x:o')
  local stored = job[5] or ''
  if job[1] ~= 'failed' then
    return 'moved'
  elseif not forced and seldom1('has_option', stored, 'K') or try('exists', key .. '-dependents') == 1 then
    return 'kept'
  end
  local details = list_of(job[3])
  leave_group(jid, details, -1)
  uncount_failure(job[2], details)
  remove_tags(jid, names_of(job[4]), 1)
  call('del', key, key .. '-history')
  if (string.find(stored, '^%a*[stkK]') ~= nil) then
    note_life(jid)
  end
  return 'deleted'
end
local function clear_list(seconds)
  local filed, deleted = prefix .. 'failed-jobs-list', 0
  local old = try('zrangebyscore', filed, '-inf', string.format('%.17g', (now - seconds)), 'LIMIT', 0, 100)
  for i = 1, #old do
    local outcome = delete_failed(old[i])
    if outcome == 'kept' then
      call('zadd', filed, stamp, old[i])
    else
      call('zrem', filed, old[i])
      deleted = deleted + (outcome == 'deleted' and 1 or 0)
    end
  end
  return deleted
end
local function clear_group(group, keep, limit)
  local key, deleted = prefix .. 'f:' .. group, 0
  local last = try('lrange', key, -limit, -1)
  local excess = keep.count >= 0 and finite(try('llen', key), 0) - keep.count or 0
  for i = #last, 1, -1 do
    local failure = list_of(try('hget', prefix .. 'j:' .. last[i], 'failure'))
    local is_old = keep.seconds >= 0 and finite(failure.when, now) + 1 <= now - keep.seconds
    if excess <= 0 and not is_old then
      return deleted
    end
    local outcome = delete_failed(last[i])
    if outcome == 'deleted' then
      unfile_failures({last[i]})
    elseif outcome == 'moved' then
      leave_group(last[i], {group = group}, -1)
    end
    excess = excess - (outcome == 'kept' and 0 or 1)
    deleted = deleted + (outcome == 'deleted' and 1 or 0)
  end
  return deleted
end
local function file_failure(jid, group, keep, stored)
  local left = 100
  if keep.seconds >= 0 then
    if not (stored and seldom1('has_option', stored, 'K')) then
      try('zadd', prefix .. 'failed-jobs-list', stamp, jid)
    end
    left = left - clear_list(keep.seconds)
  end
  if left > 0 then
    clear_group(group, keep, math.min(left, 10))
  end
end
local function rest_key(jid)
  return prefix .. 'x:rest:' .. jid
end
local function fail_unasked(jid, queue, group, message, stored, ended)
  local key = prefix .. 'j:' .. jid
  leave_queue(queue, jid)
  if seldom1('has_option', stored, 'g') then
    leave_turns(queue, try('hget', key, 'priority'))
  end
  for _, other in ipairs(try('smembers', key .. '-dependencies')) do
    undepend(jid, other)
  end
  local cap, keep = read_failing()
  mark_exhausted(jid, queue, group, cjson.encode({group = group, message = message, when = (math.floor(now)), worker = ''}), cap)
  try('publish', prefix .. 'log', (cjson.encode({ jid = jid, event = 'failed', worker = '', group = group, message = message, })))
  ended(jid, stored, 'failed')
  if keep then
    file_failure(jid, group, keep, stored)
  end
end
local function let_run(jid, other)
  local dependencies = prefix .. 'j:' .. jid .. '-dependencies'
  if type(try('srem', dependencies, other)) == 'table' then
    return false
  elseif call('scard', dependencies) == 0 and free(jid, true) then
    call('sadd', dependencies, other)
    return false
  end
  try('srem', prefix .. 'j:' .. other .. '-dependents', jid)
  return true
end
local function tell(jid, other, group, ended)
  local key = prefix .. 'j:' .. jid
  local job = try('hmget', key, 'state', 'queue', 'x:o', 'history')
  local letters, values = split_options(job[3])
  local policy = values.f
  if job[1] ~= 'depends' or not job[2] or type(policy) ~= 'table'
    or policy['do'] ~= 'run' and policy['do'] ~= 'fail' then
    return false
  end
  local runs = policy['do'] == 'run'
  if runs and not let_run(jid, other) or not runs and add_failure(jid, 'failed-dependency') then
    return false
  end
  policy.failed = type(policy.failed) == 'table' and policy.failed or {}
  policy.failed[other] = group
  call('hset', key, 'x:o', join_options(letters, values))
  adopt_history(jid, job[4])
  record(key, entry(now, '"dependency-failed"', cjson.encode({jid = other, group = group})))
  if runs then
    return true
  end
  local message = 'It depends on ' .. other .. ', which has failed in ' .. group
  local alone = string.gsub(job[3], '^(%a*)d', '%1', 1)
  fail_unasked(jid, job[2], 'failed-dependency', message, alone, ended)
  return true, job[3]
end
local function group_of(jid)
  local failure = try('hget', prefix .. 'j:' .. jid, 'failure')
  local group = type(failure) == 'string' and list_of(failure).group
  return type(group) == 'string' and group or ''
end
local function tell_each(jids, other, failed, ended)
  local group, minded = group_of(other), 0
  for i = 1, #jids do
    local minds, stored = tell(jids[i], other, group, ended)
    minded = minded + (minds and 1 or 0)
    failed[#failed + 1] = stored and seldom1('has_option', stored, 'd') and jids[i] or nil
  end
  tellable = tellable - #jids
  return minded
end
local function leave_untold(jid, cursor)
  local reply = try('set', rest_key(jid), cursor, 'NX')
  if reply and not reply.err then
    try('zadd', prefix .. 'x:rest', stamp, jid)
  end
end
local function dependents_from(jid, cursor)
  local key = prefix .. 'j:' .. jid .. '-dependents'
  local all = cursor == '0' and try('srandmember', key, tellable + 1)
  if all and #all <= tellable then
    return all, '0'
  end
  local page = try('sscan', key, cursor, 'COUNT', tellable)
  return page[2] or none, page[1] or '0'
end
local function tell_all(failed, cursor, ended, again)
  local at, minded = 1, 0
  while failed[at] do
    local jid = failed[at]
    repeat
      if tellable <= 0 then
        if minded > 0 or not again then
          leave_untold(jid, cursor)
        end
        break
      end
      local dependents
      dependents, cursor = dependents_from(jid, cursor)
      minded = minded + tell_each(dependents, jid, failed, ended)
    until cursor == '0'
    at, cursor = at + 1, '0'
  end
  return minded
end
local function result_field(state, time, result)
  return state .. '|' .. (time or '') .. '|' .. result
end
local function read_end(run, jid)
  local job = run('hmget', prefix .. 'j:' .. jid, 'state', 'time', 'failure', 'x:result')
  local state = job[1]
  if not state then
    return false
  end
  local found = {state = state}
  local ended = state == 'complete' or state == 'failed'
  if ended then
    local belongs = result_field(state, job[2], '')
    if string.sub(job[4] or '', 1, #belongs) == belongs then
      found.result = string.sub(job[4], #belongs + 1)
    end
    found.failure = state == 'failed' and job[3] or nil
  end
  return cjson.encode(found), ended
end
local function keep_result(key, state)
  local job = call('hmget', key, 'time', 'x:result', 'x:o')
  local belongs, stored = result_field(state, job[1], ''), job[2] or ''
  local result = string.match(stored, '^%a+|[^|]*|(.*)$')
  if result and string.sub(stored, 1, #belongs) ~= belongs then
    call('hset', key, 'x:result', belongs .. result)
  end
  local left = without_letter(job[3], 'r')
  if left == '' then
    call('hdel', key, 'x:o')
  else
    call('hset', key, 'x:o', left)
  end
end
local function unique_key(name)
  return prefix .. 'x:unique:' .. name
end
local function before_key(name)
  return prefix .. 'x:before:' .. name
end
local function claim_of(text)
  local _, values = split_options(text)
  local claim = values.u
  if type(claim) == 'table' and type(claim.k) == 'string' and claim.k ~= '' then
    return claim
  end
end
local function stored_claim(name)
  local text = try('get', unique_key(name))
  return string.match(type(text) == 'string' and text or '', '^(%S+) (.+)$')
end
local function claim_on(name, state, stored)
  local claim = claim_of(stored)
  if not claim or claim.k ~= name or not state or state == 'complete' or state == 'failed'
    or claim.m == 'start' and state == 'running' then
    return
  end
  return claim
end
local function kept_by(name, jid)
  local job = try('hmget', prefix .. 'j:' .. jid, 'state', 'x:o')
  local claim = claim_on(name, job[1], job[2])
  if claim and not seldom1('is_over', jid, job[2], job[1]) then
    return jid, job[1], claim
  end
  return nil, job[1], job[2]
end
local function kept_before(name, stored)
  local claim = claim_of(stored)
  local other
  if claim and claim.k == name then
    other = claim.a
  else
    other = try('get', before_key(name))
  end
  if type(other) == 'string' then
    local jid, state, theirs = kept_by(name, other)
    return jid and theirs.m ~= 'for' and jid or nil, state, theirs
  end
end
local function write_claim(jid, claim)
  local key, seconds = unique_key(claim.k), finite(claim.d)
  if claim.m == 'for' and seconds then
    call('set', key, string.format('%.17g', (now + seconds)) .. ' ' .. jid,
      'PX', string.format('%.0f', math.ceil(seconds * 1000)))
  else
    call('set', key, '0 ' .. jid)
  end
  if claim.a then
    call('set', before_key(claim.k), claim.a, 'EX', '604800')
  end
end
local function release_claim(jid, stored, state)
  local claim = claim_of(stored)
  if not claim then
    return
  end
  local ends, holder = stored_claim(claim.k)
  if holder ~= jid or ends ~= '0' and state ~= 'canceled' then
    return
  end
  local other, _, theirs = kept_before(claim.k, stored)
  if other then
    write_claim(other, theirs)
  else
    call('del', unique_key(claim.k), before_key(claim.k))
  end
end
local function is_an_end(state)
  return state == 'complete' or state == 'failed'
end
local function publish_end(jid, state, forgotten)
  local message = is_an_end(state) and read_end(try, jid)
  if not message then
    message = '{"state":"canceled","cause":"' .. state .. '"}'
  elseif #message > 65536 and not forgotten then
    message = '{"state":"' .. state .. '","more":true}'
  end
  try('publish', prefix .. ('x:done:' .. jid), message)
end
local function keep_record(jid, stored, state, forgotten)
  if not is_an_end(state) or forgotten and state == 'complete' then
    note_life(jid)
  elseif forgotten and delete_failed(jid, true) == 'kept' then
    note_life(jid, now)
  elseif not forgotten and seldom1('has_option', stored, state == 'complete' and 'k' or 'K') then
    local _, values = split_options(stored)
    note_life(jid, end_in_state(values, state, now))
  end
end
local function job_ended(jid, stored, state)
  local mortal = (string.find(stored, '^%a*[stkK]') ~= nil)
  local forgotten = mortal and is_forgotten(stored, state)
  if is_an_end(state) and seldom1('has_option', stored, 'r') then
    keep_result(prefix .. 'j:' .. jid, state)
  end
  if seldom1('has_option', stored, 'w') then
    publish_end(jid, state, forgotten)
  end
  if seldom1('has_option', stored, 'u') then
    release_claim(jid, stored, state)
  end
  if seldom1('has_option', stored, 'c') and state ~= 'complete' then
    leave_limits(jid, stored)
  end
  if state == 'failed' and seldom1('has_option', stored, 'd') then
    tell_all({jid}, '0', job_ended)
  end
  if mortal then
    keep_record(jid, stored, state, forgotten)
  end
  return forgotten and state == 'complete'
end
local function cancel_job(jid, job, how, count)
  local key = prefix .. 'j:' .. jid
  local state, queue, failure, worker = job[1], job[2], job[3], job[4]
  if state == 'complete' then
    return
  end
  local message = cjson.encode({jid = jid, worker = worker, event = 'canceled', queue = queue})
  try('publish', prefix .. 'log', message)
  if worker and worker ~= '' then
    try('zrem', prefix .. 'w:' .. worker .. ':jobs', jid)
    try('publish', prefix .. ('w:' .. worker), message)
  end
  if queue then
    do
      local queue, jid = queue, jid
      try('zrem', prefix .. 'q:' .. queue .. '-work', jid)
      try('zrem', prefix .. 'q:' .. queue .. '-locks', jid)
      try('zrem', prefix .. 'q:' .. queue .. '-scheduled', jid)
      try('zrem', prefix .. 'q:' .. queue .. '-depends', jid)
    end
  end
  if state == 'running' and queue then
    do
      local queue = queue
      if try('hexists', prefix .. 'config', queue .. '-max-concurrency') == 1 then
        wake(queue)
      end
    end
  end
  for _, other in ipairs(job.dependencies) do
    try('srem', prefix .. 'j:' .. other .. '-dependents', jid)
  end
  if state == 'failed' then
    do
      local jid, queue, failure, count = jid, queue, failure, count
      local details
      repeat
        local text = failure
        if not text then
          details = {}
          break
        end
        local ok, list = pcall(cjson.decode, text)
        if ok and type(list) == 'table' then
          details = list
          break
        end
        details = {}
      until true
      do
        local jid, failure, count = jid, details, count
        local group = failure.group
        if type(group) == 'string' then
          local key = prefix .. 'f:' .. group
          local length = count and 0 or finite(try('llen', key), 0)
          if length >= 10000 then
            count = count_from(group, failure, length)
          end
          try('lrem', key, count or 0, jid)
          do
            local group = group
            if call('exists', prefix .. 'f:' .. group) == 0 then
              try('srem', prefix .. 'failures', group)
            end
          end
        end
      end
      do
        local queue, failure = queue, details
        local at = finite(failure.when)
        if at and queue then
          do
            local day, queue, field, by = (at - at % 86400), queue, 'failed', -1
            local key = prefix .. 's:stats:' .. string.format('%d', day) .. ':' .. queue
            if try('hincrby', key, field, by) == by then
              do
                local key, day = key, day
                local keep = day + 86400 * (1 + finite(try('hget', prefix .. 'config', 'stats-history'), 30)) - now
                try('expire', key, string.format('%.0f', math.min(math.max(keep, 60), 1e10)))
              end
            end
          end
        end
      end
      do
        local jids = {jid}
        do
          local run, operation, key, list = try, 'zrem', prefix .. 'failed-jobs-list', jids
          for from = 1, #list, 1000 do
            run(operation, key, unpack(list, from, math.min(from + 999, #list)))
          end
        end
      end
    end
  end
  do
    local jid, tags, first = jid, names_of(job[5]), 1
    for i = first, #tags do
      do
        local jid, tag = jid, tags[i]
        if try('zrem', prefix .. 't:' .. tag, jid) == 1 then
          if finite(try('zincrby', prefix .. 'tags', -1, tag), 1) <= 0 then
            call('zrem', prefix .. 'tags', tag)
          end
        end
      end
    end
  end
  call('del', key, key .. '-history', key .. '-dependencies')
  do
    local channel, jid = 'canceled', jid
    if (type(try('zscore', prefix .. 'tracked', jid)) == 'string') then
      try('publish', prefix .. channel, jid)
    end
  end
  if job[6] then
    job_ended(jid, job[6], how or 'canceled')
    if seldom1('has_option', job[6], 'g') and state == 'waiting' and queue then
      leave_turns(queue, job[7])
    end
  end
end
local function fail_expired(jid, job)
  local queue, worker = job[2], job[4] or ''
  if not queue then
    return false
  end
  local group = 'expired-' .. queue
  add_failure(jid, group)
  call('hdel', prefix .. 'j:' .. jid, 'grace')
  fail_unasked(jid, queue, group, 'Its StartBy or TTL is over', job[6], job_ended)
  if worker ~= '' then
    try('zrem', prefix .. 'w:' .. worker .. ':jobs', jid)
    publish('w:' .. worker, cjson.encode({
      jid = jid, worker = worker, event = 'canceled', queue = queue,
    }))
  end
  if job[1] == 'running' then
    wake_for_slot(queue)
  end
  return true
end
local function delete_expired(jid, tags)
  local key = prefix .. 'j:' .. jid
  try('zrem', prefix .. 'completed', jid)
  remove_tags(jid, names_of(tags), 1)
  call('del', key, key .. '-history', key .. '-dependencies')
  note_life(jid)
end
local function expire_job(jid, job)
  local key, state = prefix .. 'j:' .. jid, job[1]
  if try('exists', key .. '-dependents') == 1 then
    if state == 'failed' then
      return false
    end
    return fail_expired(jid, job)
  end
  job.dependencies = try('smembers', key .. '-dependencies')
  cancel_job(jid, job, 'expired')
  return true
end
local function end_life(jid, as)
  local job = try('hmget', prefix .. 'j:' .. jid, 'state', 'queue', 'failure', 'worker', 'tags', 'x:o', 'priority',
    'time')
  local state, stored, since = job[1], job[6] or '', finite(job[8], now)
  if state == 'failed' then
    since = finite(list_of(job[3]).when, now)
  end
  local ends = state and end_of_life(jid, stored, as or state, since)
  if ends and ends <= now then
    if state == 'complete' then
      delete_expired(jid, job[5])
      return true
    elseif expire_job(jid, job) then
      if state ~= 'failed' then
        tally_expired(job[2] or '')
      end
      return true
    end
    ends = now + 60
  elseif state == 'running' and seldom1('has_option', stored, 's') then
    ends = earlier(ends, now + 60)
  end
  note_life(jid, ends)
  return false
end
  if not end_life(jid, state) then
    return false
  end
  dropped = dropped + 1
  return true
elseif which == 'allowed_by_rate' then
local queue, settings, wanted = ...
local function read_max_rate(queue, text, most)
  local rate, per = string.match(type(text) == 'string' and text or '', '^(%d+)/(%S+)$')
  rate, per = finite(rate, 0), finite(per, 0)
  if rate > 0 and per > 0 then
    return {rate = rate, per = per, list = prefix .. 'x:rate:' .. queue, most = most, started = 0}
  end
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
  local limit = read_max_rate(queue, settings.max_rate, wanted)
  if not limit then
    return wanted
  end
  settings.rate = limit
  while limit.started < wanted and not rate_opens(limit) do
    limit.started = limit.started + 1
  end
  return limit.started
elseif which == 'take_due' then
local queue, settings, wanted, lost, recur, scheduled = ...
local function may_write(key)
  return not redis.acl_check_cmd or redis.acl_check_cmd('del', key)
end
local function split_options(text)
  local letters, body = string.match(text or '', '^(%a+)|(.*)$')
  local ok, values = pcall(cjson.decode, body or '')
  if ok and type(values) == 'table' then
    return letters, values
  end
  return '', {}
end
local function finite_values(values)
  local found = {}
  for key, value in pairs(values) do
    if type(value) == 'table' then
      value = finite_values(value)
    end
    found[key] = (type(value) ~= 'number' or finite(value)) and value
  end
  return found
end
local function join_options(letters, values)
  local ok, body = pcall(cjson.encode, values)
  return letters .. '|' .. (ok and body or cjson.encode(finite_values(values)))
end
local function own_place(text)
  local _, values = split_options(text)
  return not values.g and (values.q == 'place' or values.q == 'last') and values.q or nil
end
local function without_letter(text, letter)
  local letters, body = string.match(text, '^(%a+)(|.*)$')
  letters = string.gsub(letters, letter, '')
  return letters == '' and '' or letters .. body
end
local function note_missing(name, queue)
  local key = prefix .. 'x:listed:' .. name
  if try('exists', key) == 1 then
    try('hset', key, queue, '1')
  end
end
local function wake(queue)
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
end
local function wake_for(queue, delay)
  return delay < 3600 and wake(queue)
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
local function leave_queue(queue, jid)
  try('zrem', prefix .. 'q:' .. queue .. '-work', jid)
  try('zrem', prefix .. 'q:' .. queue .. '-locks', jid)
  try('zrem', prefix .. 'q:' .. queue .. '-scheduled', jid)
  try('zrem', prefix .. 'q:' .. queue .. '-depends', jid)
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
  if not ends or ends > now or tonumber(job[3]) == 1 or seldom1('has_option', job[4] or '', 'l') then
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
  wake(queue)
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
local function leave_limits(jid, stored)
  try('hdel', prefix .. 'j:' .. jid, 'x:parked')
  for _, name in ipairs(limits_of(stored)) do
    try('zrem', limit_key(name, 'held'), jid)
    try('zrem', limit_key(name, 'wait'), jid)
    limit_freed(name)
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
local function stop_limited(jid, stored)
  if not stored or not seldom1('has_option', stored, 'c') then
    return
  end
  local found, jids = limits_of(stored), {}
  for i = 1, #found do
    jids[found[i]] = {jid}
  end
  free_slots(found, jids)
end
local function score_before(jid)
  local key = prefix .. 'j:' .. jid
  local job = try('hmget', key, 'time', 'x:parked')
  local time, name = string.match(job[2] or '', '^(%S*) (.+)$')
  if not name then
    return
  end
  local wait = limit_key(name, 'wait')
  local score = time == (job[1] or '') and try('zscore', wait, jid)
  try('zrem', wait, jid)
  try('hdel', key, 'x:parked')
  return type(score) == 'string' and score or nil, name
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
local function names_of(text)
  local found = {}
  for _, name in ipairs(list_of(text)) do
    if type(name) == 'string' or type(name) == 'number' then
      found[#found + 1] = tostring(name)
    end
  end
  return found
end
local function entry(at, what, details)
  return '[' .. string.format('%d', at) .. ',' .. what .. (details and ',' .. details or '') .. ']'
end
local function record(key, text, cap)
  local length = try('rpush', key .. '-history', text)
  if length ~= 1 and length ~= 2 and type(length) == 'number' and (not cap or length > cap) then
    seldom1('trim_history', key .. '-history', length, cap)
  end
  return length
end
local function adopt_history(jid, text)
  if text then
    seldom1('move_history', jid, text)
  end
end
local function fair_share(text)
  local _, values = split_options(text)
  local share = values.g
  if type(share) == 'table' and type(share.t) == 'string' and share.t ~= '' then
    return share.t, math.min(math.max(finite(share.w, 1), 0.01), 100)
  end
end
local function first_turn(queue, priority)
  local first = try('zrevrangebyscore', prefix .. 'q:' .. queue .. '-work', string.format('%.17g', (priority - 0.5)),
    '(' .. string.format('%.17g', (priority - 1)), 'WITHSCORES', 'LIMIT', 0, 1)
  local score = finite(first[2])
  return score and math.max(priority - 0.5 - score, 0), first.err
end
local function turn_step(priority)
  local _, exponent = math.frexp(math.abs(priority) + 1)
  return 2 ^ (exponent - 45)
end
local function turns_key(queue, priority)
  return prefix .. 'x:fair:' .. string.format('%.17g', priority) .. ':' .. queue
end
local function write_turn(key, tenant, ends, waits, passed)
  try('zadd', key, ends, tenant)
  if not waits then
    if try('zcard', key) ~= 1 then
      try('unlink', key)
      try('zadd', key, ends, tenant)
    end
    try('expire', key, 604800)
  end
  for _, other in ipairs(passed) do
    if other ~= tenant then
      try('zrem', key, other)
    end
  end
end
local function fair_score(queue, priority, stored, known)
  local tenant, weight = fair_share(stored)
  priority = finite(priority, 0)
  if not tenant or math.abs(priority) > 10000 then
    return
  end
  local key = turns_key(queue, priority)
  local first, waits, passed = known[key], true, {}
  if not first then
    local damaged
    first, damaged = first_turn(queue, priority)
    if damaged then
      return
    end
    waits, first = first ~= nil, first or 0
    passed = waits and try('zrangebyscore', key, '-inf', string.format('%.17g', first), 'LIMIT', 0, 2) or {}
    known[key] = first
  end
  local last = waits and finite(try('zscore', key, tenant), 0) or 0
  local turn = math.min(math.max(first, last), 0.49)
  write_turn(key, tenant, string.format('%.17g', (turn + turn_step(priority) / weight)), waits, passed)
  return string.format('%.17g', (priority - 0.5 - turn))
end
local function leave_turns(queue, priority)
  priority = finite(priority, 0)
  local first, damaged = first_turn(queue, priority)
  local key = turns_key(queue, priority)
  if first then
    try('expire', key, 604800)
  elseif not damaged then
    try('unlink', key)
  end
end
local function score_of(queue, priority, stored, turns)
  return stored and seldom1('has_option', stored, 'g') and fair_score(queue, priority, stored, turns) or
    (finite(priority, 0) - now / 10000000000)
end
local function add_tag(jid, tag)
  if try('zadd', prefix .. 't:' .. tag, stamp, jid) == 1 then
    try('zincrby', prefix .. 'tags', 1, tag)
  end
end
local function add_tags(jid, tags, first)
  for i = first, #tags do
    add_tag(jid, tags[i])
  end
end
local function remove_tags(jid, tags, first)
  for i = first, #tags do
    do
      local jid, tag = jid, tags[i]
      if try('zrem', prefix .. 't:' .. tag, jid) == 1 then
        if finite(try('zincrby', prefix .. 'tags', -1, tag), 1) <= 0 then
          call('zrem', prefix .. 'tags', tag)
        end
      end
    end
  end
end
local function next_child(parent, count)
  local taken = 0
  repeat
    count = count + math.max(1, 2 ^ math.floor(taken / 100 - 1))
    local child = parent .. '-' .. string.format('%.0f', count)
    taken = taken + 1
  until call('exists', prefix .. 'j:' .. child) == 0
  return count
end
local function spawn_due(queue, parent, due, limit)
  local fields = try('hmget', prefix .. 'r:' .. parent,
    'klass', 'data', 'priority', 'tags', 'retries', 'interval', 'backlog', 'count')
  local job = {
    klass = fields[1], data = fields[2] or '{}', priority = fields[3] or '0',
    tags = fields[4] or '[]', retries = fields[5] or '0',
  }
  local interval = finite(fields[6], 0)
  if not job.klass or interval <= 0 then
    call('zrem', prefix .. 'q:' .. queue .. '-recur', parent)
    return 0
  end
  local at = interval % 1 == 0 and math.floor(due) or due
  local backlog = finite(fields[7], 0)
  local missed = (now - at) / interval
  if backlog ~= 0 and missed > backlog then
    at = at + math.ceil(missed - backlog) * interval
  end
  local count, spawned = finite(fields[8], 0), 0
  while at <= now and spawned < limit do
    count = next_child(parent, count)
    do
      local queue, parent, child, job, at = queue, parent, parent .. '-' .. string.format('%.0f', count), job, at
      call('hset', prefix .. 'j:' .. child,
        'jid', child,
        'klass', job.klass,
        'data', job.data,
        'priority', job.priority,
        'tags', job.tags,
        'state', 'waiting',
        'worker', '',
        'expires', 0,
        'queue', queue,
        'retries', job.retries,
        'remaining', job.retries,
        'time', string.format('%.17g', at),
        'spawned_from_jid', parent)
      call('zadd', prefix .. 'q:' .. queue .. '-work', (finite(job.priority, 0) - at / 10000000000), child)
      add_tags(child, names_of(job.tags), 1)
      do
        local key, text, cap = prefix .. 'j:' .. child, entry(at, '"put"', cjson.encode({q = queue}))
        local length = try('rpush', key .. '-history', text)
        if length ~= 1 and length ~= 2 and type(length) == 'number' and (not cap or length > cap) then
          seldom1('trim_history', key .. '-history', length, cap)
        end
      end
    end
    at = at + interval
    spawned = spawned + 1
  end
  if spawned > 0 then
    call('hset', prefix .. 'r:' .. parent, 'count', string.format('%.0f', count))
    call('zadd', prefix .. 'q:' .. queue .. '-recur', string.format('%.17g', at), parent)
    do
      local event = {event = 'spawned', queue = queue, jid = parent, count = spawned}
      try('publish', prefix .. 'x:log', (cjson.encode(event)))
    end
  end
  return spawned
end
local function spawn_all(queue, limit)
  local due = call('zrangebyscore', prefix .. 'q:' .. queue .. '-recur', 0, stamp,
    'WITHSCORES', 'LIMIT', 0, limit)
  for i = 1, #due, 2 do
    limit = limit - spawn_due(queue, due[i], tonumber(due[i + 1]), limit)
    if limit <= 0 then
      return
    end
  end
end
local function due_score(scheduled, jid, priority, n)
  local at = finite(try('zscore', scheduled, jid), now)
  call('hset', prefix .. 'j:' .. jid, 'time', string.format('%.17g', at))
  return (finite(priority, 0) - (at + (n - 1) * 0.000001) / 10000000000)
end
local function move_scheduled(queue, limit)
  local scheduled = prefix .. 'q:' .. queue .. '-scheduled'
  local due = call('zrangebyscore', scheduled, 0, stamp, 'LIMIT', 0, limit)
  local work, turns = {}, {}
  for n, jid in ipairs(due) do
    local priority, stored
    repeat
      local jid = jid
      local job = try('hmget', prefix .. 'j:' .. jid, 'priority', 'x:o')
      if job[1] then
        priority, stored = job[1], job[2]
        break
      end
      priority, stored = not job.err and call('exists', prefix .. 'j:' .. jid) == 1 and '0', job[2]
    until true
    if priority then
      call('hset', prefix .. 'j:' .. jid, 'state', 'waiting')
      work[#work + 1] = stored and string.find(stored, '^%a*c') and score_before(jid)
        or stored and string.find(stored, '^%a*q') and own_place(stored)
          and due_score(scheduled, jid, priority, n)
        or stored and score_of(queue, priority, stored, turns) or (finite(priority, 0) - now / 10000000000)
      work[#work + 1] = jid
    end
  end
  do
    local run, operation, key, list = call, 'zrem', scheduled, due
    for from = 1, #list, 1000 do
      run(operation, key, unpack(list, from, math.min(from + 999, #list)))
    end
  end
  do
    local run, operation, key, list = call, 'zadd', prefix .. 'q:' .. queue .. '-work', work
    for from = 1, #list, 1000 do
      run(operation, key, unpack(list, from, math.min(from + 999, #list)))
    end
  end
end
local function children_with_room(queue, wanted, bytes)
  local largest = 1
  local due = call('zrangebyscore', prefix .. 'q:' .. queue .. '-recur', 0, stamp, 'LIMIT', 0, wanted)
  for i = 1, #due do
    largest = math.max(largest, finite(try('hstrlen', prefix .. 'r:' .. due[i], 'data'), 0))
  end
  return math.max(1, math.min(wanted, math.floor(bytes / largest)))
end
local function bring_due(queue, recur, scheduled, limit)
  local work = prefix .. 'q:' .. queue .. '-work'
  if limit <= 0 or not may_write(work) then
    return
  end
  call('zrem', work, '')
  if recur then
    spawn_all(queue, limit)
  end
  if scheduled then
    move_scheduled(queue, limit)
  end
end
local function earlier(a, b)
  return a and b and math.min(a, b) or a or b
end
local function end_in_state(values, state, since)
  local gone, complete, failed = finite(values.t), finite(values.k), finite(values.K)
  if state == 'complete' then
    return earlier(gone, complete and since + complete)
  elseif state == 'failed' and failed then
    return failed >= 0 and since + failed or nil
  elseif state ~= 'failed' and state ~= 'running' then
    return earlier(gone, finite(values.s))
  end
  return gone
end
local function is_forgotten(stored, state)
  local letter = state == 'complete' and 'k' or state == 'failed' and 'K'
  if not letter or not seldom1('has_option', stored, letter) then
    return false
  end
  local _, values = split_options(stored)
  return finite(values[letter]) == 0
end
local function note_life(jid, ends)
  if ends then
    try('zadd', prefix .. 'x:until', string.format('%.17g', ends), jid)
  else
    try('zrem', prefix .. 'x:until', jid)
  end
end
local function undepend(jid, other)
  try('srem', prefix .. 'j:' .. other .. '-dependents', jid)
  try('srem', prefix .. 'j:' .. jid .. '-dependencies', other)
end
local function free(jid, released)
  local key = prefix .. 'j:' .. jid
  local job = try('hmget', key, 'queue', 'priority', 'scheduled', 'x:undelayed', 'x:o')
  local queue, due = job[1], released and not job[4] and finite(job[3])
  if not queue then
    return
  end
  local state, place, score = 'scheduled', prefix .. 'q:' .. queue .. '-scheduled', job[3]
  if not due then
    state, place, score = 'waiting', prefix .. 'q:' .. queue .. '-work', score_of(queue, job[2], job[5], {})
  end
  local reply = try('zadd', place, score, jid)
  if type(reply) == 'table' then
    return reply.err
  end
  try('zrem', prefix .. 'q:' .. queue .. '-depends', jid)
  call('hset', key, 'state', state)
  if due then
    call('hdel', key, 'scheduled')
  end
  if job[4] then
    call('hdel', key, 'x:undelayed')
  end
  note_filled(queue)
  wake_for(queue, due and due - now or 0)
end
local function add_failure(jid, group)
  local reply = write_first('lpush', prefix .. 'f:' .. group, jid)
  if type(reply) == 'table' then
    return reply.err
  end
  try('sadd', prefix .. 'failures', group)
end
local function uncount_failure(queue, failure)
  local at = finite(failure.when)
  if at and queue then
    do
      local day, queue, field, by = (at - at % 86400), queue, 'failed', -1
      local key = prefix .. 's:stats:' .. string.format('%d', day) .. ':' .. queue
      if try('hincrby', key, field, by) == by then
        do
          local key, day = key, day
          local keep = day + 86400 * (1 + finite(try('hget', prefix .. 'config', 'stats-history'), 30)) - now
          try('expire', key, string.format('%.0f', math.min(math.max(keep, 60), 1e10)))
        end
      end
    end
  end
end
local function count_from(group, failure, length)
  local jid = try('lindex', prefix .. 'f:' .. group, math.floor(length / 2))
  local middle = type(jid) == 'string' and list_of(try('hget', prefix .. 'j:' .. jid, 'failure')) or {}
  return finite(failure.when, 0) < finite(middle.when, 0) and -1 or 1
end
local function leave_group(jid, failure, count)
  local group = failure.group
  if type(group) == 'string' then
    local key = prefix .. 'f:' .. group
    local length = count and 0 or finite(try('llen', key), 0)
    if length >= 10000 then
      count = count_from(group, failure, length)
    end
    try('lrem', key, count or 0, jid)
    do
      local group = group
      if call('exists', prefix .. 'f:' .. group) == 0 then
        try('srem', prefix .. 'failures', group)
      end
    end
  end
end
local function unfile_failures(jids)
  do
    local run, operation, key, list = try, 'zrem', prefix .. 'failed-jobs-list', jids
    for from = 1, #list, 1000 do
      run(operation, key, unpack(list, from, math.min(from + 999, #list)))
    end
  end
end
local function mark_exhausted(jid, queue, group, failure, cap)
  do
    local key, text, cap = prefix .. 'j:' .. jid, entry(now, '"failed"', cjson.encode({group = group})), cap
    local length = try('rpush', key .. '-history', text)
    if length ~= 1 and length ~= 2 and type(length) == 'number' and (not cap or length > cap) then
      seldom1('trim_history', key .. '-history', length, cap)
    end
  end
  call('hset', prefix .. 'j:' .. jid, 'state', 'failed', 'worker', '', 'expires', '', 'failure', failure)
  do
    local queue = queue
    do
      local day, queue, field, by = (now - now % 86400), queue, 'failures', 1
      local key = prefix .. 's:stats:' .. string.format('%d', day) .. ':' .. queue
      if try('hincrby', key, field, by) == by then
        do
          local key, day = key, day
          local keep = day + 86400 * (1 + finite(try('hget', prefix .. 'config', 'stats-history'), 30)) - now
          try('expire', key, string.format('%.0f', math.min(math.max(keep, 60), 1e10)))
        end
      end
    end
    do
      local day, queue, field, by = (now - now % 86400), queue, 'failed', 1
      local key = prefix .. 's:stats:' .. string.format('%d', day) .. ':' .. queue
      if try('hincrby', key, field, by) == by then
        do
          local key, day = key, day
          local keep = day + 86400 * (1 + finite(try('hget', prefix .. 'config', 'stats-history'), 30)) - now
          try('expire', key, string.format('%.0f', math.min(math.max(keep, 60), 1e10)))
        end
      end
    end
  end
  do
    local channel, jid = 'failed', jid
    if (type(try('zscore', prefix .. 'tracked', jid)) == 'string') then
      try('publish', prefix .. channel, jid)
    end
  end
end
local function read_failing()
  local values = try('hmget', prefix .. 'config', 'max-job-history', 'jobs-failed-history',
    'jobs-failed-history-count')
  return finite(values[1], 100), ((values[2] or values[3]) and {seconds = finite(values[2], -1), count = finite(values[3], -1)})
end
local function delete_failed(jid, forced)
  local key = prefix .. 'j:' .. jid
  local job = try('hmget', key, 'state', 'queue', 'failure', 'tags', 'x:o')
  local stored = job[5] or ''
  if job[1] ~= 'failed' then
    return 'moved'
  elseif not forced and seldom1('has_option', stored, 'K') or try('exists', key .. '-dependents') == 1 then
    return 'kept'
  end
  local details = list_of(job[3])
  leave_group(jid, details, -1)
  uncount_failure(job[2], details)
  remove_tags(jid, names_of(job[4]), 1)
  call('del', key, key .. '-history')
  if (string.find(stored, '^%a*[stkK]') ~= nil) then
    note_life(jid)
  end
  return 'deleted'
end
local function clear_list(seconds)
  local filed, deleted = prefix .. 'failed-jobs-list', 0
  local old = try('zrangebyscore', filed, '-inf', string.format('%.17g', (now - seconds)), 'LIMIT', 0, 100)
  for i = 1, #old do
    local outcome = delete_failed(old[i])
    if outcome == 'kept' then
      call('zadd', filed, stamp, old[i])
    else
      call('zrem', filed, old[i])
      deleted = deleted + (outcome == 'deleted' and 1 or 0)
    end
  end
  return deleted
end
local function clear_group(group, keep, limit)
  local key, deleted = prefix .. 'f:' .. group, 0
  local last = try('lrange', key, -limit, -1)
  local excess = keep.count >= 0 and finite(try('llen', key), 0) - keep.count or 0
  for i = #last, 1, -1 do
    local failure = list_of(try('hget', prefix .. 'j:' .. last[i], 'failure'))
    local is_old = keep.seconds >= 0 and finite(failure.when, now) + 1 <= now - keep.seconds
    if excess <= 0 and not is_old then
      return deleted
    end
    local outcome = delete_failed(last[i])
    if outcome == 'deleted' then
      unfile_failures({last[i]})
    elseif outcome == 'moved' then
      leave_group(last[i], {group = group}, -1)
    end
    excess = excess - (outcome == 'kept' and 0 or 1)
    deleted = deleted + (outcome == 'deleted' and 1 or 0)
  end
  return deleted
end
local function file_failure(jid, group, keep, stored)
  local left = 100
  if keep.seconds >= 0 then
    if not (stored and seldom1('has_option', stored, 'K')) then
      try('zadd', prefix .. 'failed-jobs-list', stamp, jid)
    end
    left = left - clear_list(keep.seconds)
  end
  if left > 0 then
    clear_group(group, keep, math.min(left, 10))
  end
end
local function rest_key(jid)
  return prefix .. 'x:rest:' .. jid
end
local function fail_unasked(jid, queue, group, message, stored, ended)
  local key = prefix .. 'j:' .. jid
  leave_queue(queue, jid)
  if seldom1('has_option', stored, 'g') then
    leave_turns(queue, try('hget', key, 'priority'))
  end
  for _, other in ipairs(try('smembers', key .. '-dependencies')) do
    undepend(jid, other)
  end
  local cap, keep = read_failing()
  mark_exhausted(jid, queue, group, cjson.encode({group = group, message = message, when = (math.floor(now)), worker = ''}), cap)
  try('publish', prefix .. 'log', (cjson.encode({ jid = jid, event = 'failed', worker = '', group = group, message = message, })))
  ended(jid, stored, 'failed')
  if keep then
    file_failure(jid, group, keep, stored)
  end
end
local function let_run(jid, other)
  local dependencies = prefix .. 'j:' .. jid .. '-dependencies'
  if type(try('srem', dependencies, other)) == 'table' then
    return false
  elseif call('scard', dependencies) == 0 and free(jid, true) then
    call('sadd', dependencies, other)
    return false
  end
  try('srem', prefix .. 'j:' .. other .. '-dependents', jid)
  return true
end
local function tell(jid, other, group, ended)
  local key = prefix .. 'j:' .. jid
  local job = try('hmget', key, 'state', 'queue', 'x:o', 'history')
  local letters, values = split_options(job[3])
  local policy = values.f
  if job[1] ~= 'depends' or not job[2] or type(policy) ~= 'table'
    or policy['do'] ~= 'run' and policy['do'] ~= 'fail' then
    return false
  end
  local runs = policy['do'] == 'run'
  if runs and not let_run(jid, other) or not runs and add_failure(jid, 'failed-dependency') then
    return false
  end
  policy.failed = type(policy.failed) == 'table' and policy.failed or {}
  policy.failed[other] = group
  call('hset', key, 'x:o', join_options(letters, values))
  adopt_history(jid, job[4])
  record(key, entry(now, '"dependency-failed"', cjson.encode({jid = other, group = group})))
  if runs then
    return true
  end
  local message = 'It depends on ' .. other .. ', which has failed in ' .. group
  local alone = string.gsub(job[3], '^(%a*)d', '%1', 1)
  fail_unasked(jid, job[2], 'failed-dependency', message, alone, ended)
  return true, job[3]
end
local function group_of(jid)
  local failure = try('hget', prefix .. 'j:' .. jid, 'failure')
  local group = type(failure) == 'string' and list_of(failure).group
  return type(group) == 'string' and group or ''
end
local function tell_each(jids, other, failed, ended)
  local group, minded = group_of(other), 0
  for i = 1, #jids do
    local minds, stored = tell(jids[i], other, group, ended)
    minded = minded + (minds and 1 or 0)
    failed[#failed + 1] = stored and seldom1('has_option', stored, 'd') and jids[i] or nil
  end
  tellable = tellable - #jids
  return minded
end
local function leave_untold(jid, cursor)
  local reply = try('set', rest_key(jid), cursor, 'NX')
  if reply and not reply.err then
    try('zadd', prefix .. 'x:rest', stamp, jid)
  end
end
local function dependents_from(jid, cursor)
  local key = prefix .. 'j:' .. jid .. '-dependents'
  local all = cursor == '0' and try('srandmember', key, tellable + 1)
  if all and #all <= tellable then
    return all, '0'
  end
  local page = try('sscan', key, cursor, 'COUNT', tellable)
  return page[2] or none, page[1] or '0'
end
local function tell_all(failed, cursor, ended, again)
  local at, minded = 1, 0
  while failed[at] do
    local jid = failed[at]
    repeat
      if tellable <= 0 then
        if minded > 0 or not again then
          leave_untold(jid, cursor)
        end
        break
      end
      local dependents
      dependents, cursor = dependents_from(jid, cursor)
      minded = minded + tell_each(dependents, jid, failed, ended)
    until cursor == '0'
    at, cursor = at + 1, '0'
  end
  return minded
end
local function result_field(state, time, result)
  return state .. '|' .. (time or '') .. '|' .. result
end
local function read_end(run, jid)
  local job = run('hmget', prefix .. 'j:' .. jid, 'state', 'time', 'failure', 'x:result')
  local state = job[1]
  if not state then
    return false
  end
  local found = {state = state}
  local ended = state == 'complete' or state == 'failed'
  if ended then
    local belongs = result_field(state, job[2], '')
    if string.sub(job[4] or '', 1, #belongs) == belongs then
      found.result = string.sub(job[4], #belongs + 1)
    end
    found.failure = state == 'failed' and job[3] or nil
  end
  return cjson.encode(found), ended
end
local function keep_result(key, state)
  local job = call('hmget', key, 'time', 'x:result', 'x:o')
  local belongs, stored = result_field(state, job[1], ''), job[2] or ''
  local result = string.match(stored, '^%a+|[^|]*|(.*)$')
  if result and string.sub(stored, 1, #belongs) ~= belongs then
    call('hset', key, 'x:result', belongs .. result)
  end
  local left = without_letter(job[3], 'r')
  if left == '' then
    call('hdel', key, 'x:o')
  else
    call('hset', key, 'x:o', left)
  end
end
local function unique_key(name)
  return prefix .. 'x:unique:' .. name
end
local function before_key(name)
  return prefix .. 'x:before:' .. name
end
local function claim_of(text)
  local _, values = split_options(text)
  local claim = values.u
  if type(claim) == 'table' and type(claim.k) == 'string' and claim.k ~= '' then
    return claim
  end
end
local function stored_claim(name)
  local text = try('get', unique_key(name))
  return string.match(type(text) == 'string' and text or '', '^(%S+) (.+)$')
end
local function claim_on(name, state, stored)
  local claim = claim_of(stored)
  if not claim or claim.k ~= name or not state or state == 'complete' or state == 'failed'
    or claim.m == 'start' and state == 'running' then
    return
  end
  return claim
end
local function kept_by(name, jid)
  local job = try('hmget', prefix .. 'j:' .. jid, 'state', 'x:o')
  local claim = claim_on(name, job[1], job[2])
  if claim and not seldom1('is_over', jid, job[2], job[1]) then
    return jid, job[1], claim
  end
  return nil, job[1], job[2]
end
local function kept_before(name, stored)
  local claim = claim_of(stored)
  local other
  if claim and claim.k == name then
    other = claim.a
  else
    other = try('get', before_key(name))
  end
  if type(other) == 'string' then
    local jid, state, theirs = kept_by(name, other)
    return jid and theirs.m ~= 'for' and jid or nil, state, theirs
  end
end
local function write_claim(jid, claim)
  local key, seconds = unique_key(claim.k), finite(claim.d)
  if claim.m == 'for' and seconds then
    call('set', key, string.format('%.17g', (now + seconds)) .. ' ' .. jid,
      'PX', string.format('%.0f', math.ceil(seconds * 1000)))
  else
    call('set', key, '0 ' .. jid)
  end
  if claim.a then
    call('set', before_key(claim.k), claim.a, 'EX', '604800')
  end
end
local function release_claim(jid, stored, state)
  local claim = claim_of(stored)
  if not claim then
    return
  end
  local ends, holder = stored_claim(claim.k)
  if holder ~= jid or ends ~= '0' and state ~= 'canceled' then
    return
  end
  local other, _, theirs = kept_before(claim.k, stored)
  if other then
    write_claim(other, theirs)
  else
    call('del', unique_key(claim.k), before_key(claim.k))
  end
end
local function is_an_end(state)
  return state == 'complete' or state == 'failed'
end
local function publish_end(jid, state, forgotten)
  local message = is_an_end(state) and read_end(try, jid)
  if not message then
    message = '{"state":"canceled","cause":"' .. state .. '"}'
  elseif #message > 65536 and not forgotten then
    message = '{"state":"' .. state .. '","more":true}'
  end
  try('publish', prefix .. ('x:done:' .. jid), message)
end
local function keep_record(jid, stored, state, forgotten)
  if not is_an_end(state) or forgotten and state == 'complete' then
    note_life(jid)
  elseif forgotten and delete_failed(jid, true) == 'kept' then
    note_life(jid, now)
  elseif not forgotten and seldom1('has_option', stored, state == 'complete' and 'k' or 'K') then
    local _, values = split_options(stored)
    note_life(jid, end_in_state(values, state, now))
  end
end
local function job_ended(jid, stored, state)
  local mortal = (string.find(stored, '^%a*[stkK]') ~= nil)
  local forgotten = mortal and is_forgotten(stored, state)
  if is_an_end(state) and seldom1('has_option', stored, 'r') then
    keep_result(prefix .. 'j:' .. jid, state)
  end
  if seldom1('has_option', stored, 'w') then
    publish_end(jid, state, forgotten)
  end
  if seldom1('has_option', stored, 'u') then
    release_claim(jid, stored, state)
  end
  if seldom1('has_option', stored, 'c') and state ~= 'complete' then
    leave_limits(jid, stored)
  end
  if state == 'failed' and seldom1('has_option', stored, 'd') then
    tell_all({jid}, '0', job_ended)
  end
  if mortal then
    keep_record(jid, stored, state, forgotten)
  end
  return forgotten and state == 'complete'
end
local function read_lost_settings(cap)
  local values = call('hmget', prefix .. 'config', 'grace-period', 'jobs-failed-history',
    'backoff-initial-delay', 'backoff-factor', 'jobs-failed-history-count')
  return {
    cap = cap,
    grace = finite(values[1], 10),
    keep_failed = ((values[2] or values[5]) and {seconds = finite(values[2], -1), count = finite(values[5], -1)}),
    initial_delay = values[3],
    factor = values[4],
  }
end
local function fail_lost(queue, jid, worker, own_queue, stored, settings)
  leave_queue(queue, jid)
  local group = 'failed-retries-' .. (own_queue or queue)
  local message = 'Job exhausted retries in queue "' .. queue .. '"'
  add_failure(jid, group)
  mark_exhausted(jid, queue, group, cjson.encode({group = group, message = message, when = now, worker = ''}), settings.cap)
  try('publish', prefix .. 'log', (cjson.encode({ jid = jid, event = 'failed', group = group, worker = worker, message = message, })))
  if stored then
    job_ended(jid, stored, 'failed')
  end
  if settings.keep_failed then
    file_failure(jid, group, settings.keep_failed, stored)
  end
end
local function backoff_delay(text, retries, remaining, settings)
  local own = list_of(text)
  local initial = finite(own.initial_delay, finite(settings.initial_delay,
    0))
  if initial == 0 then
    return nil
  end
  local factor = finite(own.factor, finite(settings.factor, 3))
  return finite(initial * factor ^ (finite(retries, remaining) - remaining))
end
local function put_off(queue, jid, delay)
  try('zrem', prefix .. 'q:' .. queue .. '-work', jid)
  call('zadd', prefix .. 'q:' .. queue .. '-scheduled', string.format('%.17g', (now + delay)), jid)
  call('zrem', prefix .. 'q:' .. queue .. '-locks', jid)
  call('hset', prefix .. 'j:' .. jid, 'state', 'scheduled')
  wake_for(queue, delay)
end
local function put_back(queue, jid, stored)
  local _, values = split_options(stored)
  if values.q ~= 'last' and values.q ~= 'place' then
    return false
  end
  local job, at = try('hmget', prefix .. 'j:' .. jid, 'priority', 'x:place'), now + made_last * 0.000001
  local turn = values.g and fair_score(queue, job[1], stored, {})
  if values.q == 'place' and not turn then
    at = finite(job[2], now)
  else
    made_last = made_last + 1
  end
  call('zadd', prefix .. 'q:' .. queue .. '-work', turn or (finite(job[1], 0) - at / 10000000000), jid)
  call('zrem', prefix .. 'q:' .. queue .. '-locks', jid)
  call('hset', prefix .. 'j:' .. jid, 'state', 'waiting', 'worker', '', 'expires', '0', 'time', string.format('%.17g', at))
  wake_for(queue, 0)
  return true
end
local function expire_lock(queue, jid, settings)
  local job = try('hmget', prefix .. 'j:' .. jid, 'worker', 'grace', 'remaining', 'history', 'queue',
    'state', 'backoff', 'retries', 'x:o')
  local worker, warned, grace = job[1] or '', tonumber(job[2]) == 1, settings.grace
  if not job[1] and not job[6] then
    call('zrem', prefix .. 'q:' .. queue .. '-locks', jid)
    return nil
  end
  do
    local jid, text = jid, job[4]
    if text then
      seldom1('move_history', jid, text)
    end
  end
  if job[9] and seldom1('is_over', jid, job[9], 'running') and seldom1('drop_expired', jid, 'running') then
    return nil
  end
  try('zrem', prefix .. 'w:' .. worker .. ':jobs', jid)
  local sudden = grace <= 0 or (job[2] == '1.0' or not job[2] and job[9] and seldom1('has_option', job[9], 'l'))
  if sudden or not warned then
    do
      local queue, jid, worker, grace, cap = queue, jid, worker, grace, settings.cap
      do
        local channel, jid = 'stalled', jid
        if (type(try('zscore', prefix .. 'tracked', jid)) == 'string') then
          try('publish', prefix .. channel, jid)
        end
      end
      do
        local key, text, cap = prefix .. 'j:' .. jid, entry(now, '"timed-out"'), cap
        local length = try('rpush', key .. '-history', text)
        if length ~= 1 and length ~= 2 and type(length) == 'number' and (not cap or length > cap) then
          seldom1('trim_history', key .. '-history', length, cap)
        end
      end
      call('hset', prefix .. 'j:' .. jid, 'grace', 1)
      do
        local jid, worker = jid, worker
        local message = cjson.encode({jid = jid, event = 'lock_lost', worker = worker})
        try('publish', prefix .. ('w:' .. worker), message)
        try('publish', prefix .. 'log', message)
      end
      call('zadd', prefix .. 'q:' .. queue .. '-locks', string.format('%.17g', (now + grace)), jid)
      do
        local day, queue, field, by = (now - now % 86400), queue, 'retries', 1
        local key = prefix .. 's:stats:' .. string.format('%d', day) .. ':' .. queue
        if try('hincrby', key, field, by) == by then
          do
            local key, day = key, day
            local keep = day + 86400 * (1 + finite(try('hget', prefix .. 'config', 'stats-history'), 30)) - now
            try('expire', key, string.format('%.0f', math.min(math.max(keep, 60), 1e10)))
          end
        end
      end
    end
  end
  if sudden or warned then
    do
      local queue, jid, job, worker, settings = queue, jid, job, worker, settings
      local remaining = math.floor(finite(job[3], 0)) - 1
      call('hset', prefix .. 'j:' .. jid, 'remaining', remaining)
      call('hdel', prefix .. 'j:' .. jid, 'grace')
      if remaining < 0 then
        fail_lost(queue, jid, worker, job[5], job[9], settings)
        return nil
      end
      if job[9] and seldom1('is_over', jid, job[9], 'waiting') and seldom1('drop_expired', jid, 'waiting') then
        return nil
      end
      local delay
      if job[7] or settings.initial_delay then
        delay = backoff_delay(job[7], job[8], remaining, settings)
      end
      if delay then
        put_off(queue, jid, delay)
      elseif not (job[9] and seldom1('has_option', job[9], 'q') and put_back(queue, jid, job[9])) then
        return jid
      end
      stop_limited(jid, job[9])
    end
  end
end
local function expire(queue, limit, settings)
  local taken = {}
  while limit > 0 do
    local before = dropped
    local ended = call('zrangebyscore', prefix .. 'q:' .. queue .. '-locks', '-inf', stamp, 'LIMIT', 0, limit)
    for _, jid in ipairs(ended) do
      taken[#taken + 1] = expire_lock(queue, jid, settings)
    end
    limit = math.min(dropped - before, 1000 - dropped)
    if limit > 0 then
      do
        local run, operation, key, list = call, 'zrem', prefix .. 'q:' .. queue .. '-locks', taken
        for from = 1, #list, 1000 do
          run(operation, key, unpack(list, from, math.min(from + 999, #list)))
        end
      end
    end
  end
  do
    local run, operation, key, list = call, 'zrem', prefix .. 'q:' .. queue .. '-work', taken
    for from = 1, #list, 1000 do
      run(operation, key, unpack(list, from, math.min(from + 999, #list)))
    end
  end
  return taken
end
local function lost_with_room(queue, wanted)
  local jids = call('zrangebyscore', prefix .. 'q:' .. queue .. '-locks', '-inf', stamp, 'LIMIT', 0, wanted)
  local bytes = taken_bytes
  for i = 1, #jids do
    local size = finite(try('hstrlen', prefix .. 'j:' .. jids[i], 'data'), 0)
    bytes = bytes + size
    if bytes > most_bytes and bytes > size then
      return i - 1
    end
  end
  return wanted
end
  call('zrem', prefix .. 'q:' .. queue .. '-work', '')
  local is_bounded, room = most_bytes < math.huge, wanted
  if lost and is_bounded then
    room = lost_with_room(queue, wanted)
  end
  local expired = lost and expire(queue, room, read_lost_settings(settings.cap)) or {}
  local missing = wanted - #expired
  local brought = missing
  if recur and is_bounded and missing > 0 then
    brought = children_with_room(queue, missing, most_bytes)
  end
  bring_due(queue, recur, scheduled, brought)
  settings.left = room < wanted
    or brought < missing and ((call('zcount', prefix .. 'q:' .. queue .. '-recur', '-inf', stamp) > 0) or (call('zcount', prefix .. 'q:' .. queue .. '-scheduled', '-inf', stamp) > 0))
  return expired
elseif which == 'read_rest' then
local jid, key, job, recorded, cap = ...
local function record(key, text, cap)
  local length = try('rpush', key .. '-history', text)
  if length ~= 1 and length ~= 2 and type(length) == 'number' and (not cap or length > cap) then
    seldom1('trim_history', key .. '-history', length, cap)
  end
  return length
end
local function adopt_before(jid, text, recorded, cap)
  if type(text) == 'string' then
    try('rpop', prefix .. 'j:' .. jid .. '-history')
    seldom1('move_history', jid, text)
    record(prefix .. 'j:' .. jid, recorded, cap)
  end
end
  local rest = try('hmget', key, 'failure', 'spawned_from_jid', 'history', 'grace')
  job[10], job[11] = rest[1], rest[2]
  adopt_before(jid, rest[3], recorded, cap)
  if rest[4] == '1.0' then
    call('hdel', key, 'grace')
  end
elseif which == 'lock_special' then
local key, job, worker, settings = ...
local function split_options(text)
  local letters, body = string.match(text or '', '^(%a+)|(.*)$')
  local ok, values = pcall(cjson.decode, body or '')
  if ok and type(values) == 'table' then
    return letters, values
  end
  return '', {}
end
local function own_lock_time(text)
  local _, values = split_options(text)
  local seconds = finite(seldom1('has_option', text, 'l') and values.l, 0)
  return seconds > 0 and seconds or nil
end
  local stored, seconds, more = job[9] or '', settings.lock_time, {}
  if seconds then
    more = {'grace', '1.0'}
  end
  if seldom1('has_option', stored, 'q') then
    more[#more + 1] = 'x:place'
    more[#more + 1] = job[8] or stamp
  end
  local ends = string.format('%.17g', (now + (seconds or own_lock_time(stored) or settings.heartbeat)))
  call('hset', key, 'state', 'running', 'worker', worker, 'expires', ends, 'time', stamp,
    unpack(more))
  return ends
elseif which == 'admit_all' then
local jids, count, jobs, taken, settings, run = ...
local function split_options(text)
  local letters, body = string.match(text or '', '^(%a+)|(.*)$')
  local ok, values = pcall(cjson.decode, body or '')
  if ok and type(values) == 'table' then
    return letters, values
  end
  return '', {}
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
local function rate_allows(limit, n)
  local place = limit.rate - limit.started - n
  local time = place >= 0 and noted_time(try('lrange', limit.list, place, place)[1])
  return place >= 0 and not (time and time + limit.per > now)
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
  if not ends or ends > now or tonumber(job[3]) == 1 or seldom1('has_option', job[4] or '', 'l') then
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
local function known_limit(name, most)
  local limit = met_limits[name]
  if not limit then
    limit = read_limit(name, most)
    met_limits[name], met_limits[#met_limits + 1] = limit, limit
  end
  return limit
end
local function limits_named(text, most)
  met_limits, met_texts = met_limits or {}, met_texts or {}
  local found = met_texts[text]
  if not found then
    found = limits_of(text)
    for i = 1, #found do
      found[i] = known_limit(found[i], most)
    end
    met_texts[text] = found
  end
  return found
end
local function admit(jid, text, most)
  local found = limits_named(text, most)
  for i = 1, #found do
    local opens = limit_opens(found[i], jid)
    if opens then
      found[i].opens = opens
      for j = 1, i - 1 do
        found[j].look = true
      end
      return nil, found[i]
    end
  end
  for i = 1, #found do
    found[i].started, found[i].room = found[i].started + 1, found[i].room - 1
  end
  return found
end
local function admit_alike(text, count, most)
  local found = limits_named(text, most)
  for i = 1, #found do
    local limit = found[i]
    if limit.hold or limit.room < count or limit.rate > 0 and not rate_allows(limit, count) then
      return nil
    end
  end
  for i = 1, #found do
    found[i].started, found[i].room = found[i].started + count, found[i].room - count
  end
  return found
end
local function drop_slots(jid, stored, most)
  for _, limit in ipairs(limits_named(stored, most)) do
    if try('zrem', limit_key(limit.name, 'held'), jid) == 1 then
      limit.room, limit.look = limit.room + 1, true
    end
  end
end
local function may_start(jid, job, ready, settings, run)
  local stored = job[9]
  if not job[1] or string.find(stored, '^%a*[st]') and seldom1('is_over', jid, stored, 'waiting') then
    return true
  elseif run and settings.direct and ready >= settings.direct then
    settings.stopped = true
    return false
  elseif run and parked >= 200 then
    settings.stopped, dropped = true, 1000
    return false
  end
  if not run then
    drop_slots(jid, stored, settings.most or 1)
  end
  local found, refused = admit(jid, stored, settings.most or 1)
  if refused then
    parked = parked + 1
    job.refused, settings.parked = refused, true
  else
    job.limits = found
  end
  return true
end
local function alike(count, jobs, taken, settings, run)
  local text = jobs[1][9]
  if count == 1 or not text or string.find(text, '^%a*[st]')
    or run and (parked > 0 or settings.direct and taken + count > settings.direct) then
    return nil
  end
  for i = 1, count do
    if jobs[i][9] ~= text or not jobs[i][1] then
      return nil
    end
  end
  return text
end
  local before, text = parked, alike(count, jobs, taken, settings, run)
  local found = text and run and admit_alike(text, count, settings.most or 1)
  if found then
    return count, found
  end
  for i = 1, count do
    local stored = jobs[i][9]
    if stored and string.find(stored, '^%a*c')
      and not may_start(jids[i], jobs[i], taken + i - 1 - parked + before, settings, run) then
      return i - 1
    end
  end
  return count
elseif which == 'note_all_started' then
local jobs, n, locks, common = ...
local function slot_end(ends)
  return string.format('%.0f', math.ceil(ends))
end
local function note_started(found, jid, score)
  for i = 1, #found do
    local limit = found[i]
    limit.noted = limit.noted + 1
    if limit.max > 0 then
      limit.held[#limit.held + 1] = score
      limit.held[#limit.held + 1] = jid
    end
  end
end
  local ends, score
  for i = 1, n do
    local found = common or jobs[i].limits
    if found and ends ~= locks[2 * i + 1] then
      ends = locks[2 * i + 1]
      score = slot_end(tonumber(ends))
    end
    if found then
      note_started(found, locks[2 * i + 2], score)
    end
  end
elseif which == 'read_scores' then
local queue, jids, count, jobs, settings, run = ...
  local refused = {}
  for i = 1, count do
    local job = jobs[i]
    if job.refused then
      job.score = settings.score or string.format('%.17g', (finite(job[3], 0)))
      refused[#refused + 1] = i
    end
  end
  if #refused == 0 then
    return
  end
  if not settings.parks then
    settings.parks = true
    call('zcard', prefix .. 'q:' .. queue .. '-scheduled')
  end
  for i = 1, run and #refused or 0 do
    jobs[refused[i]].score = call('zscore', prefix .. 'q:' .. queue .. '-work', jids[refused[i]])
  end
elseif which == 'put_aside' then
local queue, jid, job, run = ...
local function limit_key(name, part)
  return prefix .. 'x:limit:' .. name .. ':' .. part
end
local function park(queue, jid, limit, score, time)
  local wait = limit_key(limit.name, 'wait')
  limit.waiting = limit.waiting or finite(try('zcard', wait), 0)
  local due = limit.opens
  if limit.waiting > 0 then
    due = now + 60 + limit.waiting / 100
  end
  limit.waiting = limit.waiting + 1
  call('hset', prefix .. 'j:' .. jid, 'state', 'scheduled', 'x:parked', (time or '') .. ' ' .. limit.name)
  call('zadd', prefix .. 'q:' .. queue .. '-scheduled', string.format('%.17g', due), jid)
  try('zadd', wait, score, jid)
end
  if not run then
    try('zrem', prefix .. 'q:' .. queue .. '-locks', jid)
    call('hset', prefix .. 'j:' .. jid, 'worker', '', 'expires', '0')
  end
  park(queue, jid, job.refused, job.score, job[8])
elseif which == 'leave_all_turns' then
local queue, jobs, count = ...
local function first_turn(queue, priority)
  local first = try('zrevrangebyscore', prefix .. 'q:' .. queue .. '-work', string.format('%.17g', (priority - 0.5)),
    '(' .. string.format('%.17g', (priority - 1)), 'WITHSCORES', 'LIMIT', 0, 1)
  local score = finite(first[2])
  return score and math.max(priority - 0.5 - score, 0), first.err
end
local function turns_key(queue, priority)
  return prefix .. 'x:fair:' .. string.format('%.17g', priority) .. ':' .. queue
end
local function leave_turns(queue, priority)
  priority = finite(priority, 0)
  local first, damaged = first_turn(queue, priority)
  local key = turns_key(queue, priority)
  if first then
    try('expire', key, 604800)
  elseif not damaged then
    try('unlink', key)
  end
end
  local left = {}
  for i = 1, count do
    local job = jobs[i]
    local priority = job[9] and seldom1('has_option', job[9], 'g') and (job[3] or '0')
    if priority and not left[priority] then
      left[priority] = true
      leave_turns(queue, priority)
    end
  end
elseif which == 'bring_more' then
local queue, settings, limit = ...
local function may_write(key)
  return not redis.acl_check_cmd or redis.acl_check_cmd('del', key)
end
local function split_options(text)
  local letters, body = string.match(text or '', '^(%a+)|(.*)$')
  local ok, values = pcall(cjson.decode, body or '')
  if ok and type(values) == 'table' then
    return letters, values
  end
  return '', {}
end
local function own_place(text)
  local _, values = split_options(text)
  return not values.g and (values.q == 'place' or values.q == 'last') and values.q or nil
end
local function limit_key(name, part)
  return prefix .. 'x:limit:' .. name .. ':' .. part
end
local function score_before(jid)
  local key = prefix .. 'j:' .. jid
  local job = try('hmget', key, 'time', 'x:parked')
  local time, name = string.match(job[2] or '', '^(%S*) (.+)$')
  if not name then
    return
  end
  local wait = limit_key(name, 'wait')
  local score = time == (job[1] or '') and try('zscore', wait, jid)
  try('zrem', wait, jid)
  try('hdel', key, 'x:parked')
  return type(score) == 'string' and score or nil, name
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
local function names_of(text)
  local found = {}
  for _, name in ipairs(list_of(text)) do
    if type(name) == 'string' or type(name) == 'number' then
      found[#found + 1] = tostring(name)
    end
  end
  return found
end
local function entry(at, what, details)
  return '[' .. string.format('%d', at) .. ',' .. what .. (details and ',' .. details or '') .. ']'
end
local function fair_share(text)
  local _, values = split_options(text)
  local share = values.g
  if type(share) == 'table' and type(share.t) == 'string' and share.t ~= '' then
    return share.t, math.min(math.max(finite(share.w, 1), 0.01), 100)
  end
end
local function first_turn(queue, priority)
  local first = try('zrevrangebyscore', prefix .. 'q:' .. queue .. '-work', string.format('%.17g', (priority - 0.5)),
    '(' .. string.format('%.17g', (priority - 1)), 'WITHSCORES', 'LIMIT', 0, 1)
  local score = finite(first[2])
  return score and math.max(priority - 0.5 - score, 0), first.err
end
local function turn_step(priority)
  local _, exponent = math.frexp(math.abs(priority) + 1)
  return 2 ^ (exponent - 45)
end
local function turns_key(queue, priority)
  return prefix .. 'x:fair:' .. string.format('%.17g', priority) .. ':' .. queue
end
local function write_turn(key, tenant, ends, waits, passed)
  try('zadd', key, ends, tenant)
  if not waits then
    if try('zcard', key) ~= 1 then
      try('unlink', key)
      try('zadd', key, ends, tenant)
    end
    try('expire', key, 604800)
  end
  for _, other in ipairs(passed) do
    if other ~= tenant then
      try('zrem', key, other)
    end
  end
end
local function fair_score(queue, priority, stored, known)
  local tenant, weight = fair_share(stored)
  priority = finite(priority, 0)
  if not tenant or math.abs(priority) > 10000 then
    return
  end
  local key = turns_key(queue, priority)
  local first, waits, passed = known[key], true, {}
  if not first then
    local damaged
    first, damaged = first_turn(queue, priority)
    if damaged then
      return
    end
    waits, first = first ~= nil, first or 0
    passed = waits and try('zrangebyscore', key, '-inf', string.format('%.17g', first), 'LIMIT', 0, 2) or {}
    known[key] = first
  end
  local last = waits and finite(try('zscore', key, tenant), 0) or 0
  local turn = math.min(math.max(first, last), 0.49)
  write_turn(key, tenant, string.format('%.17g', (turn + turn_step(priority) / weight)), waits, passed)
  return string.format('%.17g', (priority - 0.5 - turn))
end
local function score_of(queue, priority, stored, turns)
  return stored and seldom1('has_option', stored, 'g') and fair_score(queue, priority, stored, turns) or
    (finite(priority, 0) - now / 10000000000)
end
local function add_tag(jid, tag)
  if try('zadd', prefix .. 't:' .. tag, stamp, jid) == 1 then
    try('zincrby', prefix .. 'tags', 1, tag)
  end
end
local function add_tags(jid, tags, first)
  for i = first, #tags do
    add_tag(jid, tags[i])
  end
end
local function next_child(parent, count)
  local taken = 0
  repeat
    count = count + math.max(1, 2 ^ math.floor(taken / 100 - 1))
    local child = parent .. '-' .. string.format('%.0f', count)
    taken = taken + 1
  until call('exists', prefix .. 'j:' .. child) == 0
  return count
end
local function spawn_due(queue, parent, due, limit)
  local fields = try('hmget', prefix .. 'r:' .. parent,
    'klass', 'data', 'priority', 'tags', 'retries', 'interval', 'backlog', 'count')
  local job = {
    klass = fields[1], data = fields[2] or '{}', priority = fields[3] or '0',
    tags = fields[4] or '[]', retries = fields[5] or '0',
  }
  local interval = finite(fields[6], 0)
  if not job.klass or interval <= 0 then
    call('zrem', prefix .. 'q:' .. queue .. '-recur', parent)
    return 0
  end
  local at = interval % 1 == 0 and math.floor(due) or due
  local backlog = finite(fields[7], 0)
  local missed = (now - at) / interval
  if backlog ~= 0 and missed > backlog then
    at = at + math.ceil(missed - backlog) * interval
  end
  local count, spawned = finite(fields[8], 0), 0
  while at <= now and spawned < limit do
    count = next_child(parent, count)
    do
      local queue, parent, child, job, at = queue, parent, parent .. '-' .. string.format('%.0f', count), job, at
      call('hset', prefix .. 'j:' .. child,
        'jid', child,
        'klass', job.klass,
        'data', job.data,
        'priority', job.priority,
        'tags', job.tags,
        'state', 'waiting',
        'worker', '',
        'expires', 0,
        'queue', queue,
        'retries', job.retries,
        'remaining', job.retries,
        'time', string.format('%.17g', at),
        'spawned_from_jid', parent)
      call('zadd', prefix .. 'q:' .. queue .. '-work', (finite(job.priority, 0) - at / 10000000000), child)
      add_tags(child, names_of(job.tags), 1)
      do
        local key, text, cap = prefix .. 'j:' .. child, entry(at, '"put"', cjson.encode({q = queue}))
        local length = try('rpush', key .. '-history', text)
        if length ~= 1 and length ~= 2 and type(length) == 'number' and (not cap or length > cap) then
          seldom1('trim_history', key .. '-history', length, cap)
        end
      end
    end
    at = at + interval
    spawned = spawned + 1
  end
  if spawned > 0 then
    call('hset', prefix .. 'r:' .. parent, 'count', string.format('%.0f', count))
    call('zadd', prefix .. 'q:' .. queue .. '-recur', string.format('%.17g', at), parent)
    do
      local event = {event = 'spawned', queue = queue, jid = parent, count = spawned}
      try('publish', prefix .. 'x:log', (cjson.encode(event)))
    end
  end
  return spawned
end
local function spawn_all(queue, limit)
  local due = call('zrangebyscore', prefix .. 'q:' .. queue .. '-recur', 0, stamp,
    'WITHSCORES', 'LIMIT', 0, limit)
  for i = 1, #due, 2 do
    limit = limit - spawn_due(queue, due[i], tonumber(due[i + 1]), limit)
    if limit <= 0 then
      return
    end
  end
end
local function due_score(scheduled, jid, priority, n)
  local at = finite(try('zscore', scheduled, jid), now)
  call('hset', prefix .. 'j:' .. jid, 'time', string.format('%.17g', at))
  return (finite(priority, 0) - (at + (n - 1) * 0.000001) / 10000000000)
end
local function move_scheduled(queue, limit)
  local scheduled = prefix .. 'q:' .. queue .. '-scheduled'
  local due = call('zrangebyscore', scheduled, 0, stamp, 'LIMIT', 0, limit)
  local work, turns = {}, {}
  for n, jid in ipairs(due) do
    local priority, stored
    repeat
      local jid = jid
      local job = try('hmget', prefix .. 'j:' .. jid, 'priority', 'x:o')
      if job[1] then
        priority, stored = job[1], job[2]
        break
      end
      priority, stored = not job.err and call('exists', prefix .. 'j:' .. jid) == 1 and '0', job[2]
    until true
    if priority then
      call('hset', prefix .. 'j:' .. jid, 'state', 'waiting')
      work[#work + 1] = stored and string.find(stored, '^%a*c') and score_before(jid)
        or stored and string.find(stored, '^%a*q') and own_place(stored)
          and due_score(scheduled, jid, priority, n)
        or stored and score_of(queue, priority, stored, turns) or (finite(priority, 0) - now / 10000000000)
      work[#work + 1] = jid
    end
  end
  do
    local run, operation, key, list = call, 'zrem', scheduled, due
    for from = 1, #list, 1000 do
      run(operation, key, unpack(list, from, math.min(from + 999, #list)))
    end
  end
  do
    local run, operation, key, list = call, 'zadd', prefix .. 'q:' .. queue .. '-work', work
    for from = 1, #list, 1000 do
      run(operation, key, unpack(list, from, math.min(from + 999, #list)))
    end
  end
end
local function bring_due(queue, recur, scheduled, limit)
  local work = prefix .. 'q:' .. queue .. '-work'
  if limit <= 0 or not may_write(work) then
    return
  end
  call('zrem', work, '')
  if recur then
    spawn_all(queue, limit)
  end
  if scheduled then
    move_scheduled(queue, limit)
  end
end
  settings.parked = false
  if not (call('zcount', prefix .. 'q:' .. queue .. '-scheduled', '-inf', stamp) > 0) then
    return false
  end
  bring_due(queue, false, true, limit)
  return call('exists', prefix .. 'q:' .. queue .. '-work') == 1
end
end
local function popped_json(jid, job, tracked, worker, expires, more)
  job[10], job[11] = job[10] or false, job[11] or false
  job[12], job[13] = false, jid
  job[14], job[15], job[16] = 'running', worker, expires
  local newest = '{"worker":' .. cjson.encode(worker) .. ',"when":' .. string.format('%d', now) ..
    ',"what":"popped"}'
  do
    local job, tracked, more, newest = job, tracked, more, newest
    local jid, tags, failure = job[13], job[7], job[10]
    do
      local jid, text = jid, job[12]
      if text then
        seldom1('move_history', jid, text)
      end
    end
    local retries, remaining, priority = job[4], job[5], job[3]
    if retries ~= '5' then
      retries = finite(retries, 0)
    end
    if remaining ~= '5' then
      remaining = math.floor(finite(remaining, 0))
    end
    if priority ~= '0' then
      priority = string.format('%.17g', (finite(priority, 0)))
    end
    local encode = cjson.encode
    local history
    do
      local jid, newest = jid, newest
      local list = try('lrange', prefix .. 'j:' .. jid .. '-history', '0', '-1')
      local n = #list
      if newest and n > 0 then
        list[n] = newest
        n = n - 1
      end
      for i = 1, n do
        local object
        repeat
          local text = list[i]
          local when, what, details = string.match(text, '^%[(%-?%d+),("[^"\\]*"),{(.+)}%]$')
          if when then
            object = '{' .. details .. ',"when":' .. when .. ',"what":' .. what .. '}'
            break
          end
          when, what = string.match(text, '^%[(%-?%d+),("[^"\\]*")%]$')
          if when then
            object = '{"when":' .. when .. ',"what":' .. what .. '}'
            break
          end
          object = seldom1('unusual_entry', text)
        until true
        list[i] = object
      end
      history = joined(list)
    end
    local related_jobs
    repeat
      local jid = jid
      local dependents = prefix .. 'j:' .. jid .. '-dependents'
      local dependencies = prefix .. 'j:' .. jid .. '-dependencies'
      if call('exists', dependents, dependencies) > 0 then
        related_jobs = seldom1('sets_json', jid)
        break
      end
      related_jobs = ',"dependents":[],"dependencies":[]'
    until true
    return '{"tracked":' .. (tracked and 'true' or 'false') ..
      ',"jid":' .. encode(jid) ..
      ',"retries":' .. retries ..
      ',"data":' .. encode(job[6]) ..
      ',"queue":' .. encode(job[2]) ..
      ',"state":' .. encode(job[14]) ..
      ',"remaining":' .. remaining ..
      ',"spawned_from_jid":' .. encode(job[11]) ..
      ',"klass":' .. encode(job[1]) ..
      ',"expires":' .. finite(job[16], 0) ..
      ',"worker":' .. encode(job[15] or '') ..
      ',"priority":' .. priority ..
      ',"tags":' .. (tags and #tags > 2 and seldom1('readable', tags) or '[]') ..
      ',"failure":' .. (failure and failure ~= '{}' and seldom1('readable', failure) or '{}') ..
      ',"history":' .. history .. related_jobs ..
      (job[9] and seldom1('extra_members', jid, job[9], job[14], job[8]) or '') .. (more or '') .. '}'
  end
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
local worker
do
  local area, name, text = 'Pop', 'worker', ARGV[3]
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
local count
do
  local area, name, text = 'Pop', 'count', ARGV[4]
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
  count = amount + 0
end
local timed = ARGV[5] == 'timed'
local lock_for = ARGV[6] and number('Pop', 'lock', ARGV[6])
if lock_for and lock_for < 0 then
  do
    local area, message = 'Pop', 'Arg "lock" is negative: ' .. ARGV[6]
    error(area .. '(): ' .. message)
  end
end
do
  if redis.acl_check_cmd and not redis.acl_check_cmd('publish', prefix .. 'log') then
    error({err = 'NOPERM this user may not publish to the channel ' .. prefix .. 'log'})
  end
end
local settings
do
  local queue = queue
  local values = call('hmget', prefix .. 'config', queue .. '-heartbeat', 'heartbeat',
    queue .. '-max-concurrency', 'max-job-history', queue .. '-max-rate')
  local heartbeat = (finite(values[1]) or finite(values[2], 60))
  settings = {
    heartbeat = heartbeat,
    max_concurrency = finite(values[3], 0),
    cap = finite(values[4], 100),
    tracked = true,
    max_rate = values[5],
  }
end
if lock_for then
  settings.lock_time = lock_for
end
if timed then
  related_left = 4000
end
settings.tracked = call('exists', prefix .. 'paused_queues', prefix .. 'tracked',
  prefix .. 'q:' .. queue .. '-recur', prefix .. 'q:' .. queue .. '-scheduled') > 0
if settings.tracked and call('sismember', prefix .. 'paused_queues', queue) == 1 then
  return '[]'
end
local function timed_json(jid, job, tracked, its_worker, expires)
  local data = job[6]
  local beside = data and #data >= 4096 and seldom1('set_beside', job) or ''
  local text = popped_json(jid, job, tracked, its_worker, expires, beside ..
    ',"put_at":' .. cjson.encode(job[8] or '') .. ',"popped_at":"' .. stamp .. '"')
  large.text = large.text + #text
  return text
end
local out, show, at_once, is_left = {}, popped_json, count, false
if timed then
  show, at_once, most_bytes = timed_json, 50, 2097152
end
repeat
  local queue, settings, wanted = queue, settings, count
  if settings.max_concurrency > 0 then
    local running = call('zcount', prefix .. 'q:' .. queue .. '-locks', stamp, '+inf')
    wanted = math.min(wanted, math.max(0, settings.max_concurrency - running))
  end
  if settings.max_rate and wanted > 0 then
    count = seldom1('allowed_by_rate', queue, settings, wanted)
    break
  end
  count = wanted
until true
if count > 0 then
  settings.most = count
  local run
  local jids
  repeat
    local queue, settings, wanted = queue, settings, math.min(count, at_once)
    local lost, recur, scheduled = (call('zcount', prefix .. 'q:' .. queue .. '-locks', '-inf', stamp) > 0), false, false
    if settings.tracked then
      recur, scheduled = (call('zcount', prefix .. 'q:' .. queue .. '-recur', '-inf', stamp) > 0), (call('zcount', prefix .. 'q:' .. queue .. '-scheduled', '-inf', stamp) > 0)
    end
    if lost or recur or scheduled then
      jids = seldom1('take_due', queue, settings, wanted, lost, recur, scheduled)
      break
    end
    jids = none
  until true
  is_left = settings.left or jids ~= none and at_once < count
  while jids do
    do
      local queue, jids, worker, settings, show, out, run = queue, jids, worker, settings, show, out, run
      for first = 1, #jids, 500 do
        local some = jids
        if #jids > 500 then
          some = {unpack(jids, first, math.min(first + 500 - 1, #jids))}
        end
        repeat
          local queue, jids, worker, settings, show, out, run = queue, some, worker, settings, show, out, run
          local cap = settings.cap
          local expires
          repeat
            local seconds = settings.heartbeat
            if seconds % 1 == 0 and #stamp == 17 and string.sub(stamp, 11, 11) == '.' then
              local digits, decimals = string.format('%d', now + seconds), string.sub(stamp, 11)
              if #digits == 10 and decimals ~= '.000000' then
                expires = digits .. decimals
                break
              end
            end
            expires = string.format('%.17g', (now + seconds))
          until true
          local details = '{"worker":' .. cjson.encode(worker) .. '}'
          local popped = ('[' .. string.format('%d', now) .. ',"popped"' .. (details and ',' .. details or '') .. ']')
          local jobs, waited, locks = (jids[2] and {unpack(jids)} or {false}), (jids[2] and {unpack(jids)} or {false}), {'0', '-----------------------------------------------------------------', false, unpack(jids)}
          local n, count, limited, fair, common = 0, #jids, false, false, nil
          for i = 1, count do
            local key = prefix .. 'j:' .. jids[i]
            local job = try('hmget', key, 'klass', 'queue', 'priority', 'retries', 'remaining', 'data',
              'tags', 'time', 'x:o')
            jobs[i], waited[i] = job, key
            local size = #(job[6] or '')
            taken_bytes = taken_bytes + size
            if taken_bytes > most_bytes and taken_bytes > size and run then
              count, settings.stopped, dropped = i - 1, true, 1000
              break
            end
            if job[9] and string.find(job[9], '^%a*[cg]') then
              limited = limited or seldom1('has_option', job[9], 'c')
              fair = fair or seldom1('has_option', job[9], 'g')
            end
          end
          if limited then
            count, common = seldom1('admit_all', jids, count, jobs, #out, settings, run)
            if not common then
              seldom1('read_scores', queue, jids, count, jobs, settings, run)
            end
          end
          if run then
            local first = count == 1 and '-1' or string.format('%d', -count)
            if count == 0 or type(run('zremrangebyrank', prefix .. 'q:' .. queue .. '-work', first, '-1')) == 'table' then
              settings.stopped = true
              break
            end
          end
          if fair then
            seldom1('leave_all_turns', queue, jobs, count)
          end
          local put_at, put_time
          for i = 1, count do
            local jid, job, key = jids[i], jobs[i], waited[i]
            local stored = job[9]
            local over = stored and string.find(stored, '^%a*[st]') and seldom1('is_over', jid, stored, 'waiting')
              and seldom1('drop_expired', jid, 'waiting')
            if limited and job.refused then
              seldom1('put_aside', queue, jid, job, run)
            elseif not over and (job[1] or not job.err and call('exists', key) == 1) then
              n = n + 1
              local entries
              do
                local key, text, cap = key, popped, cap
                local length = try('rpush', key .. '-history', text)
                if length ~= 1 and length ~= 2 and type(length) == 'number' and (not cap or length > cap) then
                  seldom1('trim_history', key .. '-history', length, cap)
                end
                entries = length
              end
              if entries ~= 2 or string.find(jid, '-', 1, true) then
                seldom1('read_rest', jid, key, job, popped, cap)
              end
              local ends = expires
              if settings.lock_time or stored and string.find(stored, '^%a*[lq]') then
                ends = seldom1('lock_special', key, job, worker, settings)
              else
                call('hset', key, 'state', 'running', 'worker', worker, 'expires', expires, 'time', stamp)
              end
              if job[8] ~= put_at or n == 1 then
                put_at, put_time = job[8], finite(job[8], now)
              end
              jobs[n], jids[n], waited[n] = job, jid, now - put_time
              locks[2 * n + 1], locks[2 * n + 2] = ends, jid
            else
              call('zrem', prefix .. 'q:' .. queue .. '-locks', jid)
            end
          end
          for i = n + 1, #jids do
            jids[i], waited[i] = nil, nil
          end
          if n == 0 then
            break
          end
          if limited then
            seldom1('note_all_started', jobs, n, locks, common)
          end
          if settings.rate then
            seldom1('note_starts', settings.rate, n)
          end
          do
            local queue, worker, locks, n = queue, worker, locks, n
            local first = n < 6 and (string.byte(locks[4], -1) or 1) % 16 > 0 and 3 or 1
            call('zadd', prefix .. 'q:' .. queue .. '-locks', unpack(locks, first, 2 * n + 2))
            local held = try('zadd', prefix .. 'w:' .. worker .. ':jobs', unpack(locks, first, 2 * n + 2))
            if first == 1 then
              call('zrem', prefix .. 'q:' .. queue .. '-locks', '-----------------------------------------------------------------')
              if type(held) == 'number' then
                call('zrem', prefix .. 'w:' .. worker .. ':jobs', '-----------------------------------------------------------------')
              end
            end
          end
          do
            local kind, queue, durations = 'wait', queue, waited
            local day = (now - now % 86400)
            local key = prefix .. 's:' .. kind .. ':' .. string.format('%d', day) .. ':' .. queue
            local asked, counts
            do
              local durations = durations
              local fields, seen, short = {'total', 'mean', 'vk', 's0'}, {s0 = 0}, 0
              for i = 1, #durations do
                local seconds = durations[i]
                if seconds >= 0 and seconds < 1 then
                  short = short + 1
                else
                  local name
                  repeat
                    local seconds = seconds
                    if seconds < 60 then
                      name = 's' .. math.floor(seconds)
                      break
                    elseif seconds < 3600 then
                      name = 'm' .. math.floor(seconds / 60)
                      break
                    elseif seconds < 86400 then
                      name = 'h' .. math.floor(seconds / 3600)
                      break
                    end
                    name = 'd' .. string.format('%.0f', math.floor(seconds / 86400))
                  until true
                  if not seen[name] then
                    fields[#fields + 1] = name
                  end
                  seen[name] = (seen[name] or 0) + 1
                end
              end
              if short == 0 then
                table.remove(fields, 4)
              end
              seen.s0 = short
              asked, counts = fields, seen
            end
            local values = try('hmget', key, unpack(asked))
            local total = finite(values[1], 0)
            local mean = finite(values[2], 0)
            local vk = finite(values[3], 0)
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
            local update = {'total', string.format('%d', total), 'mean', mean, 'vk', vk, '', ''}
            for i = 4, #asked do
              update[2 * i - 1] = asked[i]
              update[2 * i] = string.format('%d', finite(values[i], 0) + counts[asked[i]])
            end
            try('hset', key, unpack(update))
            if fresh then
              seldom1('begin_day', kind, day, queue)
            end
          end
          local tracked = settings.tracked and try('zmscore', prefix .. 'tracked', unpack(jids)) or none
          for i = 1, n do
            if tracked[i] then
              try('publish', prefix .. 'popped', jids[i])
            end
            out[#out + 1] = show(jids[i], jobs[i], tracked[i] and true or false, worker,
              locks[2 * i + 1])
          end
        until true
      end
    end
    local more = within(math.min(count - #out, at_once))
    if is_left and out[1] or settings.stopped or large.text >= 262144 then
      is_left = true
      break
    elseif more <= 0 then
      break
    end
    jids, run = call('zrevrange', prefix .. 'q:' .. queue .. '-work', '0', more == 1 and '0' or string.format('%d', (more < 500 and more or 500) - 1)), call
    if #jids == 0 and not (settings.parked and seldom1('bring_more', queue, settings, more)) then
      break
    end
  end
end
if met_limits then
  seldom1('settle_limits')
elseif #out == 0 and settings.tracked then
  local coming = try('zrange', prefix .. 'q:' .. queue .. '-scheduled', 0, 0)
  if coming[1] then
    seldom1('try_parked', coming[1], queue)
  end
end
write_first('zadd', prefix .. 'workers', stamp, worker)
if large[1] or is_left then
  return seldom1('with_large', joined(out), is_left and out[1] and 'more' or '')
end
return joined(out)

