-- put.many: puts many jobs into queues.
--
-- KEYS[1]  the namespace prefix
-- ARGV     NOW, worker, checked ('1' from a caller that has checked that all JSON is JSON, 'new' if
--          besides all jids are fresh random ones, or ''),
--          then for each job, at most 1000: queue, jid, klass, data, delay, n, and n arguments:
--          the other pairs of put
-- Returns  nil, or an array with an array for each put that has left a job as it is, or replaced
--          one: its place among the jobs from 0, and the two values that put returns
-- Errors   Queue(), Put(); nothing is written then
-- Cost     of new jobs: 3 commands a queue, and 3 for each, 3 more for each tag or dependency
-- Repeat   once, unless new
-- Waits    for replicas
-- Needs    del exists expire get hdel hexists hget hincrby hmget hset lindex llen lpush lrange lrem
--          ltrim publish rpush sadd scard set sismember smembers srandmember srem sscan time unlink
--          zadd zcard zincrby zmscore zpopmax zpopmin zrange zrangebyscore zrank zrem zrevrange
--          zrevrangebyscore zscore

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




local seldom1


local unheard = 0
















local tellable = 200







local claiming, watching, mortal, turns = false, false, false, false
local batches = false







seldom1 = function(which, ...)
if which == 'fair_score' then
local queue, priority, stored, known = ...
local function finite(text, default)
  local n = text and tonumber(text)
  if n and n - n == 0 then
    return n
  end
  return default
end
local function split_options(text)
  local letters, body = string.match(text or '', '^(%a+)|(.*)$')
  local ok, values = pcall(cjson.decode, body or '')
  if ok and type(values) == 'table' then
    return letters, values
  end
  return '', {}
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
elseif which == 'wake_several' then
local queue, delay, n = ...
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
  if delay >= 3600 then
    return
  end
  for _ = 1, math.min(16, math.ceil(n / 10)) do
    if not wake(queue) then
      return
    end
  end
elseif which == 'keep_delay' then
local key, delay, means_none = ...
  if delay > 0 then
    call('hset', key, 'scheduled', string.format('%.17g', (now + delay)))
    call('hdel', key, 'x:undelayed')
  elseif means_none and call('hexists', key, 'scheduled') == 1 then
    call('hset', key, 'x:undelayed', '1')
  end
elseif which == 'trim_history' then
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
elseif which == 'add_tags' then
local jid, tags, first = ...
local function add_tag(jid, tag)
  if try('zadd', prefix .. 't:' .. tag, stamp, jid) == 1 then
    try('zincrby', prefix .. 'tags', 1, tag)
  end
end
  for i = first, #tags do
    add_tag(jid, tags[i])
  end
elseif which == 'prepare' then
local worker, groups, in_order = ...
local function reject(area, message)
  error(area .. '(): ' .. message)
end
local function options(area, first, last)
  local found = {}
  if last < first then
    return found
  end
  if (last - first) % 2 == 0 or last > #ARGV then
    do
      local area, message = area, 'Odd number of additional args'
      error(area .. '(): ' .. message)
    end
  end
  for i = first, last, 2 do
    found[ARGV[i]] = ARGV[i + 1]
  end
  return found
end
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
local function with_letter(text, letter)
  if not string.find(text or '', '^%a+|') then
    return letter .. '|{}'
  end
  return has_option(text, letter) and text or letter .. text
end
local function with_value(text, letter, value)
  local letters, values = split_options(with_letter(text, letter))
  values[letter] = value
  return join_options(letters, values)
end
local function merge_options(old, given, ended)
  local gone = (given.drop or '') .. (ended and 'strwn' or '')
  if not given.o and gone == '' then
    return
  end
  local letters, values = split_options(old)
  for letter in string.gmatch(gone, '%a') do
    letters = string.gsub(letters, letter, '')
    values[letter] = nil
  end
  local added, new = split_options(given.o)
  for key, value in pairs(new) do
    values[key] = value
  end
  for letter in string.gmatch(added, '%a') do
    if not string.find(letters, letter, 1, true) then
      letters = letters .. letter
    end
  end
  if not string.find(letters, '[st]') then
    values.put = nil
  end
  return letters == '' and '' or join_options(letters, values)
end
local function is_batch(stored)
  return stored and has_option(stored, 'b')
end
local function read_batch(area, jid)
  local job = call('hmget', prefix .. 'j:' .. jid, 'state', 'x:o')
  if job[1] ~= 'depends' then
    reject(area, 'Job ' .. jid .. ' not in the depends state: ' .. tostring(job[1]))
  elseif not is_batch(job[2]) then
    reject(area, 'Job ' .. jid .. ' is not a batch')
  end
  return job[2]
end
local function waiting_for(jid)
  local list, found, at = {jid}, {[jid] = true}, 1
  while list[at] and #list < 1000 do
    local key = prefix .. 'j:' .. list[at] .. '-dependents'
    for _, other in ipairs(try('srandmember', key, 1000 - #list)) do
      if not found[other] then
        list[#list + 1], found[other] = other, true
      end
    end
    at = at + 1
  end
  return found
end
local function is_circle(item, jid, batch)
  if not item.old and #item.depends == 0 then
    return false
  end
  batch.waiting = batch.waiting or waiting_for(jid)
  for _, other in ipairs(item.depends) do
    if batch.waiting[other] then
      return true
    end
  end
  return batch.waiting[item.jid]
end
local function read_batches(area, batches, items)
  for _, item in ipairs(items) do
    local jid = item.given.batch
    if jid then
      local batch = batches[jid]
      batch.stored = batch.stored or read_batch(area, jid)
      if is_circle(item, jid, batch) then
        reject(area, 'Job ' .. item.jid .. ' would wait for its own batch')
      end
      batch.members[#batch.members + 1] = item.jid
    end
    if batches[item.jid] then
      reject(area, 'Job ' .. item.jid .. ' is put together with its members')
    end
  end
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
local function needed(jid, list, first, before)
  local others = {}
  for i = first, #list do
    local other = list[i]
    local state = other == 'x:open' and 'open' or before[other] or try('hget', prefix .. 'j:' .. other, 'state')
    if type(state) == 'table' then
      return nil, 'Job ' .. other .. ' can not be read: ' .. state.err
    elseif state and state ~= 'complete' and other ~= jid then
      others[#others + 1] = other
    end
  end
  return others
end
local function link(jid, others, added)
  for i = 1, 2 * #others do
    local other = others[math.ceil(i / 2)]
    local key, member = prefix .. 'j:' .. other .. '-dependents', jid
    if i % 2 == 0 then
      key, member = prefix .. 'j:' .. jid .. '-dependencies', other
    end
    local reply = try('sadd', key, member)
    if reply == 1 then
      added[#added + 1] = {key, member}
    elseif reply ~= 0 then
      for j = 1, #added do
        call('srem', added[j][1], added[j][2])
      end
      return {key = key, member = member, err = reply.err}
    end
  end
end
local function undepend(jid, other)
  try('srem', prefix .. 'j:' .. other .. '-dependents', jid)
  try('srem', prefix .. 'j:' .. jid .. '-dependencies', other)
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
local function is_over(jid, stored, state)
  return (string.find(stored, '^%a*[stkK]') ~= nil) and (end_of_life(jid, stored, state, now) or math.huge) <= now
end
local function renew_lifetimes(text)
  local letters, values = split_options(text)
  if not string.find(letters, '[st]') then
    return text
  end
  values.put = math.floor(now)
  return join_options(letters, values)
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
local function move_history(jid, text)
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
end
local function adopt_history(jid, text)
  if text then
    move_history(jid, text)
  end
end
local function count_from(group, failure, length)
  local jid = try('lindex', prefix .. 'f:' .. group, math.floor(length / 2))
  local middle = type(jid) == 'string' and list_of(try('hget', prefix .. 'j:' .. jid, 'failure')) or {}
  return finite(failure.when, 0) < finite(middle.when, 0) and -1 or 1
end
local function forget_failure(jid, queue, failure, count)
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
local function difference(list, other, first)
  local gone, kept = {}, {}
  for i = first, #other do
    gone[other[i]] = true
  end
  for i = 1, #list do
    if not gone[list[i]] then
      kept[#kept + 1] = list[i]
    end
  end
  return kept
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
  if claim and not is_over(jid, job[2], job[1]) then
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
local function holder_of(name)
  local ends, jid = stored_claim(name)
  if not jid then
    return
  elseif ends ~= '0' then
    return finite(ends, 0) > now and jid or nil, try('hmget', prefix .. 'j:' .. jid, 'state')[1] or ''
  end
  local holder, state, claim = kept_by(name, jid)
  if holder then
    return holder, state, claim
  end
  return kept_before(name, claim)
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
local function claim_again(jid, stored)
  local claim = claim_of(stored)
  if claim and claim.m ~= 'for' and (holder_of(claim.k) or jid) == jid then
    return claim
  end
end
local function set_options(item, old, first, jid)
  local letters, values = split_options(item.given.o)
  local _, before = split_options(old)
  for letter in string.gmatch('bdfw', '%a') do
    if has_option(old, letter) and not has_option(letters, letter) then
      letters, values[letter] = letters .. letter, before[letter]
    end
  end
  values.u.a = type(before.u) == 'table' and before.u.a or nil
  values.u.j, values.u.s = jid, string.format('%.17g', first) .. ' ' .. stamp
  item.put_as, item.first = jid, first
  item.options = join_options(letters, values)
end
local function set_due(item, due)
  local within = item.given.within
  if within and due > item.first + within then
    due = item.first + within
  end
  item.due, item.delay = due, math.max(due - now, 0)
  item.score = due < now and not item.given.share and (finite(item.priority, 0) - due / 10000000000) or nil
end
local function score_in_work(jid, queue, job)
  local limit = parked_by(job.state, job.time, job.parked)
  return call('zscore', limit and limit_key(limit, 'wait') or (prefix .. 'q:' .. queue .. '-work'), jid)
end
local function due_of(item, jid, queue, job)
  local score = score_in_work(jid, queue, job)
  local due = not score and finite(call('zscore', prefix .. 'q:' .. queue .. '-scheduled', jid))
  if score then
    local at, priority = finite(score), finite(job.priority, 0)
    local due = at and (priority - at) * 10000000000 or 0
    if due <= now or not item.given.share then
      return due <= now and due or item.first
    end
    local stays = queue == item.queue and priority == finite(item.priority, 0)
    return now, stays and has_option(job.stored, 'g') and score
  end
  return due or not job.undelayed and finite(job.scheduled) or now
end
local function replace_job(item, jid, held)
  local put_as, key = item.jid, prefix .. 'j:' .. jid
  local job = call('hmget', key, 'tags', 'queue', 'state', 'worker', 'history', 'grace', 'x:o',
    'time', 'priority', 'scheduled', 'x:undelayed', 'x:parked')
  item.jid, item.key, item.replaces = jid, key, true
  item.old = {
    tags = names_of(job[1]), queue = job[2], state = job[3], worker = job[4], history = job[5],
    grace = job[6], ended = none, limits = job[7] and has_option(job[7], 'c') and job[7],
    priority = job[9], stored = job[7],
  }
  item.tags = item.tags or none
  item.waits = call('scard', key .. '-dependencies') > 0
  item.watches = has_option(job[7], 'f')
  local first, last = string.match(type(held.s) == 'string' and held.s or '', '^(%S+) (%S+)$')
  if last ~= job[8] then
    first = job[8]
  end
  set_options(item, job[7], finite(first, now), put_as)
  local due, turn = now + item.delay, false
  if item.given.replace == 'due' and job[2] then
    due, turn = due_of(item, jid, job[2],
      {priority = job[9], scheduled = job[10], undelayed = job[11], state = job[3], time = job[8],
        parked = job[12], stored = job[7]})
  end
  set_due(item, due)
  item.turn = turn
  item.score = turn or item.score
end
local function take_over(item, earlier)
  item.jid, item.key, item.replaces = earlier.jid, earlier.key, true
  item.old, item.others, item.waits = earlier.old, earlier.others, earlier.waits
  item.watches, item.claim, item.claimed = earlier.watches, earlier.claim, earlier.claimed
  item.tags = item.tags or none
  item.given.batch = item.given.batch or earlier.given.batch
  set_options(item, earlier.options or earlier.given.o, earlier.first or now,
    earlier.put_as or earlier.jid)
  if item.given.replace == 'due' then
    local stays = earlier.turn and item.given.share and item.queue == earlier.queue and
      finite(item.priority, 0) == finite(earlier.priority, 0)
    set_due(item, earlier.due or now + earlier.delay)
    item.turn = stays and earlier.turn
    item.score = item.turn or item.score
  else
    set_due(item, now + item.delay)
  end
  earlier.left = 'replaced'
end
local function known_as(item, earlier, holder, held)
  if earlier and earlier.left then
    return earlier.holder or earlier.jid
  end
  return not earlier and held and held.j == item.jid and holder
end
local function follow(item, jid)
  local letters, values = split_options(item.given.o)
  values.f, values.u.a = {['do'] = 'run', of = {jid}}, jid
  item.depends, item.watches, item.follows = {jid}, true, true
  item.claim = item.given.claim
  item.claim.a = jid
  letters = has_option(letters, 'f') and letters or letters .. 'f'
  item.options = join_options(letters, values)
end
local function more_fields(backoff, options)
  local more = {}
  if backoff then
    more[1], more[2] = 'backoff', backoff
  end
  if options and options ~= '' then
    more[#more + 1] = 'x:o'
    more[#more + 1] = options
  end
  return more
end
local function keep_followed(given, old)
  local claim = given.claim
  if claim and old and old.a and old.k == claim.k then
    claim.a = old.a
    given.o = with_value(given.o, 'u', claim)
  end
end
local function keep_options(item, old, state)
  local ended = state == 'complete' or state == 'failed'
  local over = not ended and is_over(item.jid, old, 'waiting')
  if has_option(old, 'u') then
    item.claimed = old
    keep_followed(item.given, claim_of(old))
    local again = ended or over or state == 'running'
    item.claim = again and not item.given.claim and claim_again(item.jid, old)
  end
  item.watches = has_option(old, 'f')
  item.old.limits = has_option(old, 'c') and old
  local given = item.given
  local drop = given.drop or ''
  if over then
    drop = drop .. 'st'
  end
  if has_option(old, 'p') then
    drop = drop .. 'p'
  end
  local text = merge_options(old, {o = given.o, drop = drop}, ended)
  if (string.find((text or old), '^%a*[stkK]') ~= nil) then
    text = renew_lifetimes(text or old)
    mortal = true
  end
  item.options = text or old
  if text then
    item.text = text
    item.more = more_fields(item.given.backoff, text)
    item.old.optionless = text == ''
  end
  item.share = has_option(text or old, 'g') and (text or old)
  turns = turns or item.share and {}
end
local function read_old(item)
  local key, depends = item.key, item.depends
  local fields = call('hmget', key, 'priority', 'tags', 'queue', 'state', 'failure', 'retries',
    'worker', 'history', 'grace', 'x:o')
  item.old = {
    tags = names_of(fields[2]), queue = fields[3], state = fields[4], failure = fields[5],
    worker = fields[7], history = fields[8], grace = fields[9], ended = none,
    priority = fields[1], stored = fields[10],
  }
  item.priority = item.priority or fields[1]
  item.tags = item.tags or item.old.tags
  item.retries = item.retries or fields[6]
  if fields[10] then
    keep_options(item, fields[10], fields[4])
  end
  if #depends == 0 then
    item.waits = call('scard', key .. '-dependencies') > 0
    return
  end
  local before = call('smembers', key .. '-dependencies')
  item.old.ended = difference(before, depends, 1)
  item.waits = #item.old.ended < #before
end
local function part_of(item)
  if item.waits then
    return 'depends'
  end
  return item.delay > 0 and 'scheduled' or 'work'
end
local function is_left(condition, state)
  if condition == 'finished' then
    return state ~= 'complete' and state ~= 'failed'
  elseif condition == 'idle' then
    return state == 'running'
  end
  return true
end
local function is_gone(jid, found)
  return found[2] and is_over(jid, found[2], found[1])
end
local function read_holder(item, before, claims)
  local given = item.given
  local claim, earlier = given.claim, claims[given.claim.k]
  local holder, state, held = holder_of(claim.k)
  local known = given.replace and known_as(item, earlier, holder, held)
  if earlier and not earlier.left then
    holder, held = earlier.jid, earlier.given.claim or earlier.claim
    state = earlier.waits and 'depends' or earlier.delay > 0 and 'scheduled' or 'waiting'
  end
  if known then
    item.left, item.holder = 'replaced', known
  elseif not holder or holder == item.jid then
    item.claim = claim
  elseif not given.replace or not held or held.m == 'for' then
    item.left, item.holder = state, holder
  elseif earlier then
    take_over(item, earlier)
  elseif state == 'running' then
    follow(item, holder)
  else
    if before[holder] then
      reject('Put', 'Job ' .. holder .. ' is named twice')
    end
    replace_job(item, holder, held)
  end
  if known or not item.left then
    claims[claim.k] = item
  end
  if item.replaces or item.follows then
    item.more = more_fields(given.backoff, item.options)
  end
end
local function keep_claim(item, claims)
  local key = item.claim.k
  if claims[key] then
    item.claim = nil
  else
    claims[key] = item
  end
end
local function read_before(item, before, claims)
  if call('exists', item.key) == 1 then
    local new = item.checked == 'new' or item.given.replace
    local condition = new and 'new' or item.given['if']
    if before[item.jid] then
      do
        local area, message = 'Put', 'Job ' .. item.jid .. ' is named twice'
        error(area .. '(): ' .. message)
      end
    end
    local found = condition and call('hmget', item.key, 'state', 'x:o') or none
    if condition and is_left(condition, found[1]) and (new or not is_gone(item.jid, found)) then
      item.left = found[1] or ''
      if new and item.given.claim then
        claims[item.given.claim.k] = item
      end
      return
    end
    read_old(item)
  end
  if item.given.claim then
    read_holder(item, before, claims)
    if item.left then
      return
    end
  elseif item.claim then
    keep_claim(item, claims)
  end
  if not item.others then
    local others, problem = needed(item.jid, item.depends, 1, before)
    if problem then
      do
        local area, message = 'Put', problem
        error(area .. '(): ' .. message)
      end
    end
    item.others, item.waits = others, item.waits or #others > 0
  end
  item.watches = item.waits and (item.watches or item.given.watches)
  watching = watching or item.watches
end
local function leave(item, worker)
  local jid, old = item.jid, item.old
  local queue, owner = old.queue, old.worker
  adopt_history(jid, old.history)
  if queue then
    leave_queue(queue, jid)
  end
  if owner and owner ~= '' then
    try('zrem', prefix .. 'w:' .. owner .. ':jobs', jid)
    old.lost = owner ~= worker
    if old.state == 'running' and queue then
      wake_for_slot(queue)
    end
  end
  if old.state == 'complete' then
    try('zrem', prefix .. 'completed', jid)
  elseif old.state == 'failed' then
    forget_failure(jid, queue, old.failure)
  end
  if old.grace then
    call('hdel', item.key, 'grace')
  end
  local keeps_turn = item.score and item.given.share
  if old.stored and has_option(old.stored, 'g') and old.state == 'waiting' and queue and not keeps_turn then
    leave_turns(queue, old.priority)
  end
  if old.limits then
    leave_limits(jid, old.limits)
  end
  if old.optionless then
    call('hdel', item.key, 'x:o')
  end
  remove_tags(jid, difference(old.tags, item.tags, 1), 1)
  for _, other in ipairs(old.ended) do
    undepend(jid, other)
  end
end
local function drop_left(items)
  local kept = 0
  for i = 1, #items do
    local item = items[i]
    items[i] = nil
    if not item.left then
      kept = kept + 1
      items[kept] = item
    end
  end
end
local function change_claim(item)
  write_claim(item.jid, item.claim)
  local before = claim_of(item.claimed)
  if before and before.k ~= item.claim.k then
    release_claim(item.jid, item.claimed, 'canceled')
  end
end
local function must_link(jid, others, added)
  local failed = link(jid, others, added)
  if failed then
    call('sadd', failed.key, failed.member)
  end
end
local function link_members(jid, members, added)
  local dependencies = prefix .. 'j:' .. jid .. '-dependencies'
  local before = call('scard', dependencies)
  must_link(jid, members, added)
  return call('scard', dependencies) - before
end
  local before, claims, added, found = {}, {}, {}, {}
  for i, item in ipairs(in_order) do
    item.depends, item.given = item.depends or none, item.given or none
    read_before(item, before, claims)
    if not item.left then
      call('zcard', (prefix .. 'q:' .. item.queue .. '-' .. (part_of(item))))
      before[item.jid] = 'put'
      found[#found + 1] = item.replaces and {i - 1, item.jid, 'replaced'} or nil
    elseif item.holder or item.checked ~= 'new' and not item.given.replace then
      found[#found + 1] = {i - 1, item.holder or item.jid, item.left}
    end
  end
  drop_left(in_order)
  for g = 1, #groups do
    drop_left(groups[g])
  end
  if batches then
    read_batches('Put', batches, in_order)
  end
  for _, item in ipairs(in_order) do
    must_link(item.jid, item.others, added)
  end
  if batches then
    for jid, batch in pairs(batches) do
      batch.count = link_members(jid, batch.members, added)
    end
  end
  for _, item in ipairs(in_order) do
    if item.claim then
      change_claim(item)
    end
    if item.old then
      leave(item, worker)
    end
  end
  return found
elseif which == 'fractional_score' then
local n, priority = ...
local function finite(text, default)
  local n = text and tonumber(text)
  if n and n - n == 0 then
    return n
  end
  return default
end
local function apart(priority)
  if priority == 0 then
    return 0.000001
  end
  local _, exponent = math.frexp(priority)
  return math.max(0.000001, 2 ^ (exponent - 52) * 10000000000)
end
  if n == 0 then
    return (finite(priority, 0) - now / 10000000000)
  end
  return (finite(priority, 0) - (now + n * apart(finite(priority, 0))) / 10000000000)
elseif which == 'past_score' then
local item = ...
local function options(area, first, last)
  local found = {}
  if last < first then
    return found
  end
  if (last - first) % 2 == 0 or last > #ARGV then
    do
      local area, message = area, 'Odd number of additional args'
      error(area .. '(): ' .. message)
    end
  end
  for i = first, last, 2 do
    found[ARGV[i]] = ARGV[i + 1]
  end
  return found
end
local function finite(text, default)
  local n = text and tonumber(text)
  if n and n - n == 0 then
    return n
  end
  return default
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
  local stored = item.options or item.given.o
  if not stored or own_place(stored) ~= 'place' then
    return nil
  end
  item.more = item.more or {}
  item.more[#item.more + 1] = 'time'
  item.more[#item.more + 1] = string.format('%.17g', item.at)
  return (finite(item.priority, 0) - item.at / 10000000000)
elseif which == 'jids_of' then
local group = ...
  local jids = {}
  for i = 1, #group do
    jids[i] = group[i].jid
  end
  return jids
elseif which == 'soonest' then
local group = ...
  local delay = math.huge
  for i = 1, #group do
    delay = math.min(delay, group[i].delay)
  end
  return delay
elseif which == 'watch_all' then
local items = ...
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
local function may_write(key)
  return not redis.acl_check_cmd or redis.acl_check_cmd('del', key)
end
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
local function grow_batches(batches)
  for jid, batch in pairs(batches) do
    if #batch.members > 0 then
      local letters, values = split_options(batch.stored)
      local own = type(values.b) == 'table' and values.b or {}
      own.n = finite(own.n, 0) + batch.count
      values.b = own
      call('hset', prefix .. 'j:' .. jid, 'x:o', join_options(letters, values))
    end
  end
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
local function score_of(queue, priority, stored, turns)
  return stored and has_option(stored, 'g') and seldom1('fair_score', queue, priority, stored, turns) or
    (finite(priority, 0) - now / 10000000000)
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
local function is_over(jid, stored, state)
  return (string.find(stored, '^%a*[stkK]') ~= nil) and (end_of_life(jid, stored, state, now) or math.huge) <= now
end
local function is_forgotten(stored, state)
  local letter = state == 'complete' and 'k' or state == 'failed' and 'K'
  if not letter or not has_option(stored, letter) then
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
local function move_history(jid, text)
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
end
local function adopt_history(jid, text)
  if text then
    move_history(jid, text)
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
  elseif not forced and has_option(stored, 'K') or try('exists', key .. '-dependents') == 1 then
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
    if not (stored and has_option(stored, 'K')) then
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
  if has_option(stored, 'g') then
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
    failed[#failed + 1] = stored and has_option(stored, 'd') and jids[i] or nil
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
local function watch(jid, ended, some)
  local failed = {}
  for _, other in ipairs(some or try('smembers', prefix .. 'j:' .. jid .. '-dependencies')) do
    local key = prefix .. 'j:' .. other
    local job = try('hmget', key, 'state', 'x:o')
    if job[1] and not (job[2] and has_option(job[2], 'd')) then
      local stored = job[2] and string.find(job[2], '^%a+|{') and job[2] or '|{}'
      call('hset', key, 'x:o', 'd' .. stored)
    end
    if job[1] == 'failed' then
      failed[#failed + 1] = other
    end
  end
  local more = {}
  for _, other in ipairs(failed) do
    tell_each({jid}, other, more, ended)
  end
  tell_all(more, '0', ended)
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
  if claim and not is_over(jid, job[2], job[1]) then
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
  elseif not forgotten and has_option(stored, state == 'complete' and 'k' or 'K') then
    local _, values = split_options(stored)
    note_life(jid, end_in_state(values, state, now))
  end
end
local function job_ended(jid, stored, state)
  local mortal = (string.find(stored, '^%a*[stkK]') ~= nil)
  local forgotten = mortal and is_forgotten(stored, state)
  if is_an_end(state) and has_option(stored, 'r') then
    keep_result(prefix .. 'j:' .. jid, state)
  end
  if has_option(stored, 'w') then
    publish_end(jid, state, forgotten)
  end
  if has_option(stored, 'u') then
    release_claim(jid, stored, state)
  end
  if has_option(stored, 'c') and state ~= 'complete' then
    leave_limits(jid, stored)
  end
  if state == 'failed' and has_option(stored, 'd') then
    tell_all({jid}, '0', job_ended)
  end
  if mortal then
    keep_record(jid, stored, state, forgotten)
  end
  return forgotten and state == 'complete'
end
  if batches then
    grow_batches(batches)
  end
  for jid, batch in pairs(batches or none) do
    if batch.stored and has_option(batch.stored, 'f') then
      watch(jid, job_ended, batch.members)
    end
  end
  for i = 1, #items do
    if items[i].watches then
      watch(items[i].jid, job_ended)
    end
  end
elseif which == 'enter_lives' then
local items = ...
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
local function may_write(key)
  return not redis.acl_check_cmd or redis.acl_check_cmd('del', key)
end
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
local function each_slice(run, operation, key, list)
  for from = 1, #list, 1000 do
    run(operation, key, unpack(list, from, math.min(from + 999, #list)))
  end
end
local function publish(channel, message)
  return try('publish', prefix .. channel, message)
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
local function score_of(queue, priority, stored, turns)
  return stored and has_option(stored, 'g') and seldom1('fair_score', queue, priority, stored, turns) or
    (finite(priority, 0) - now / 10000000000)
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
local function is_over(jid, stored, state)
  return (string.find(stored, '^%a*[stkK]') ~= nil) and (end_of_life(jid, stored, state, now) or math.huge) <= now
end
local function is_forgotten(stored, state)
  local letter = state == 'complete' and 'k' or state == 'failed' and 'K'
  if not letter or not has_option(stored, letter) then
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
local function move_history(jid, text)
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
end
local function adopt_history(jid, text)
  if text then
    move_history(jid, text)
  end
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
  elseif not forced and has_option(stored, 'K') or try('exists', key .. '-dependents') == 1 then
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
    if not (stored and has_option(stored, 'K')) then
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
  if has_option(stored, 'g') then
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
    failed[#failed + 1] = stored and has_option(stored, 'd') and jids[i] or nil
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
  if claim and not is_over(jid, job[2], job[1]) then
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
  elseif not forgotten and has_option(stored, state == 'complete' and 'k' or 'K') then
    local _, values = split_options(stored)
    note_life(jid, end_in_state(values, state, now))
  end
end
local function job_ended(jid, stored, state)
  local mortal = (string.find(stored, '^%a*[stkK]') ~= nil)
  local forgotten = mortal and is_forgotten(stored, state)
  if is_an_end(state) and has_option(stored, 'r') then
    keep_result(prefix .. 'j:' .. jid, state)
  end
  if has_option(stored, 'w') then
    publish_end(jid, state, forgotten)
  end
  if has_option(stored, 'u') then
    release_claim(jid, stored, state)
  end
  if has_option(stored, 'c') and state ~= 'complete' then
    leave_limits(jid, stored)
  end
  if state == 'failed' and has_option(stored, 'd') then
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
    if has_option(job[6], 'g') and state == 'waiting' and queue then
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
  elseif state == 'running' and has_option(stored, 's') then
    ends = earlier(ends, now + 60)
  end
  note_life(jid, ends)
  return false
end
local function end_lives(limit)
  local ended = 0
  local due = try('zrangebyscore', prefix .. 'x:until', '-inf', stamp, 'LIMIT', 0, limit)
  for i = 1, #due do
    ended = ended + (end_life(due[i]) and 1 or 0)
  end
  return ended
end
  local entries, put = {}, 0
  local before, ends
  for i = 1, #items do
    local item = items[i]
    local text = item.text or item.given and item.given.o
    if text and (string.find(text, '^%a*[stkK]') ~= nil) then
      if text ~= before then
        local _, values = split_options(text)
        ends, before = end_in_state(values, 'waiting'), text
        ends = ends and string.format('%.17g', ends)
      end
      if ends then
        entries[#entries + 1], entries[#entries + 2] = ends, item.jid
      end
      put = put + 1
    end
  end
  each_slice(try, 'zadd', prefix .. 'x:until', entries)
  end_lives(math.min(2 * put, 100))
elseif which == 'add_given' then
local item, given = ...
local function reject(area, message)
  error(area .. '(): ' .. message)
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
local function named(area, name, text)
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
    return text
  end
end
local function names(area, name, text)
  if not text then
    return none
  end
  local list
  do
    local area, name, text = area, name, text
    local ok, value, problem = pcall(cjson.decode, text)
    if not ok or problem then
      do
        local area, message = area, 'Arg "' .. name .. '" missing or not JSON: ' .. string.sub(tostring(text), 1, 200)
        error(area .. '(): ' .. message)
      end
    end
    list = value
  end
  if type(list) ~= 'table' then
    do
      local area, message = area, 'Arg "' .. name .. '" is not a JSON array'
      error(area .. '(): ' .. message)
    end
  end
  local members = 0
  for _ in pairs(list) do
    members = members + 1
  end
  if members ~= #list then
    do
      local area, message = area, 'Arg "' .. name .. '" is not a JSON array'
      error(area .. '(): ' .. message)
    end
  end
  for i = 1, #list do
    if type(list[i]) == 'number' then
      list[i] = tostring(list[i])
    elseif type(list[i]) ~= 'string' then
      do
        local area, message = area, 'Arg "' .. name .. '" is not a JSON array of strings'
        error(area .. '(): ' .. message)
      end
    end
  end
  return list
end
local function check_dependencies(area, list, first)
  for i = first, #list do
    if string.find(list[i], '%-history$') or string.find(list[i], '%-dependents$') or
      string.find(list[i], '%-dependencies$') then
      reject(area, 'Arg "depends" names no job: ' .. list[i])
    end
  end
  return list
end
local function read_dependencies(area, text)
  return check_dependencies(area, names(area, 'depends', text), 1)
end
local function options(area, first, last)
  local found = {}
  if last < first then
    return found
  end
  if (last - first) % 2 == 0 or last > #ARGV then
    do
      local area, message = area, 'Odd number of additional args'
      error(area .. '(): ' .. message)
    end
  end
  for i = first, last, 2 do
    found[ARGV[i]] = ARGV[i + 1]
  end
  return found
end
local function finite(text, default)
  local n = text and tonumber(text)
  if n and n - n == 0 then
    return n
  end
  return default
end
local function is_strict(text)
  if string.find(text, '%c') then
    return false
  end
  local bare = string.gsub(string.gsub(text, '\\.', ''), '"[^"]*"', '')
  for word in string.gmatch(bare, '[%w%.%+%-]+') do
    if word ~= 'true' and word ~= 'false' and word ~= 'null' then
      local digits = string.gsub(string.gsub(word, '[eE][%+%-]?%d+$', ''), '%.%d+$', '')
      if digits ~= '0' and digits ~= '-0' and not string.find(digits, '^%-?[1-9]%d*$') then
        return false
      end
    end
  end
  return true
end
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
local function read_options(area, text, checked)
  local given, letters, values = string.find(text, '^%a+|{.*}$'), nil, nil
  if given and not checked then
    letters, values = split_options(text)
    given = letters ~= '' and pcall(cjson.encode, values)
  end
  if not given then
    reject(area, 'Arg "o" is not options: ' .. string.sub(text, 1, 200))
  end
  return (checked or is_strict(string.match(text, '{.*'))) and text or join_options(letters, values)
end
local function fair_share(text)
  local _, values = split_options(text)
  local share = values.g
  if type(share) == 'table' and type(share.t) == 'string' and share.t ~= '' then
    return share.t, math.min(math.max(finite(share.w, 1), 0.01), 100)
  end
end
local function read_share(area, text)
  if not has_option(text, 'g') then
    return false
  elseif not fair_share(text) then
    reject(area, 'Arg "o" has no tenant: ' .. string.sub(text, 1, 200))
  end
  return text
end
local function lifetime_name(letter)
  return letter == 's' and 'StartBy' or 'TTL'
end
local function left_until(area, letter, ends)
  if ends <= now then
    reject(area, lifetime_name(letter) .. ' was over ' .. string.format('%.3f', now - ends) .. ' s ago')
  end
  return ends - now
end
local function read_lifetimes(area, text, delay)
  local letters, values = split_options(text)
  if letters == '' then
    reject(area, 'Arg "o" is not JSON: ' .. string.sub(text, 1, 200))
  end
  local given = type(values.a) == 'string' and values.a or ''
  values.a = nil
  for letter in string.gmatch(letters, '[stkK]') do
    local seconds, is_time = finite(values[letter]), letter == 's' or letter == 't'
    if seconds and is_time and string.find(given, letter, 1, true) then
      seconds = left_until(area, letter, seconds)
    end
    local least = letter == 'K' and -1 or 0
    if not seconds or seconds < least or seconds == 0 and is_time then
      reject(area, 'Arg "o" has no lifetime "' .. letter .. '": ' .. string.sub(text, 1, 200))
    elseif is_time and seconds <= delay then
      reject(area, lifetime_name(letter) .. ' is over after ' .. seconds ..
        ' s, but Delay or At makes the job wait for ' .. delay .. ' s')
    end
    values[letter] = is_time and now + seconds or seconds
    values.put = is_time and math.floor(now) or values.put
  end
  return join_options(letters, values)
end
local function check_limit_name(area, name)
  if type(name) ~= 'string' or name == '' or #name > 200 or string.find(name, '[%c%s]') then
    reject(area, 'This is no name of a limit: ' .. string.sub(tostring(name), 1, 200))
  end
  return name
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
local function read_limits(area, text)
  if not has_option(text, 'c') then
    return
  end
  local _, values = split_options(text)
  local found = limits_of(text)
  for i = 1, #found do
    check_limit_name(area, found[i])
  end
  if type(values.c) ~= 'table' or #found == 0 or #found ~= #values.c then
    reject(area, 'Arg "o" does not have 1 to ' .. 8 .. ' limits: ' ..
      string.sub(text, 1, 200))
  end
end
local function read_policy(area, text)
  if not text or not has_option(text, 'f') then
    return false
  end
  local _, values = split_options(text)
  local policy = type(values.f) == 'table' and values.f['do']
  if policy ~= 'wait' and policy ~= 'run' and policy ~= 'fail' then
    reject(area, 'Arg "o" has no policy: ' .. string.sub(text, 1, 200))
  end
  return true
end
local function claim_of(text)
  local _, values = split_options(text)
  local claim = values.u
  if type(claim) == 'table' and type(claim.k) == 'string' and claim.k ~= '' then
    return claim
  end
end
local function read_claim(area, text)
  local claim = has_option(text, 'u') and claim_of(text)
  if has_option(text, 'u') and (not claim or claim.m == 'for' and finite(claim.d, 0) <= 0) then
    reject(area, 'Arg "o" has no unique key: ' .. string.sub(text, 1, 200))
  end
  return claim
end
local function read_replace(area, given)
  local how, claim = given.replace, given.claim
  if not how then
    return
  elseif how ~= 'delay' and how ~= 'due' then
    reject(area, 'Arg "replace" is neither delay nor due: ' .. how)
  elseif not claim or claim.m == 'for' or given.depends or given['if'] then
    reject(area, 'Arg "replace" needs a unique key, and no time for it, dependencies or condition')
  end
  given.within = given.within and number(area, 'within', given.within)
end
local function more_fields(backoff, options)
  local more = {}
  if backoff then
    more[1], more[2] = 'backoff', backoff
  end
  if options and options ~= '' then
    more[#more + 1] = 'x:o'
    more[#more + 1] = options
  end
  return more
end
local function read_rare(given, checked, delay)
  local condition = given['if'] or 'idle'
  if condition ~= 'absent' and condition ~= 'finished' and condition ~= 'idle' then
    reject('Put', 'Unknown condition "' .. condition .. '"')
  end
  if given.o then
    given.o = read_options('Put', given.o, checked)
    if (string.find(given.o, '^%a*[stkK]') ~= nil) then
      given.o, mortal = read_lifetimes('Put', given.o, delay), true
    end
    given.claim = read_claim('Put', given.o) or nil
    claiming = claiming or given.claim ~= nil
    given.watches = read_policy('Put', given.o)
    given.share = read_share('Put', given.o)
    read_limits('Put', given.o)
    turns = turns or given.share and {}
    read_replace('Put', given)
  end
  if given.batch then
    batches = batches or {}
    batches[named('Put', 'batch', given.batch)] = {members = {}}
  end
  return more_fields(given.backoff, given.o)
end
  item.given = given
  if given.depends then
    item.depends = read_dependencies('Put', given.depends)
  end
  local at = given.at and number('Put', 'at', given.at)
  if at then
    item.delay, item.at = math.max(at - now, 0), at < now and at
  end
  if given.o or given['if'] or given.backoff or given.batch then
    item.more = read_rare(given, item.checked, item.delay)
  end
  item.priority = given.priority and number('Put', 'priority', given.priority)
  item.retries = given.retries and number('Put', 'retries', given.retries)
  item.tags = given.tags and names('Put', 'tags', given.tags)
end
end

local items, seen = {}, {}
local function grouped()
  local groups, found = {}, {}
  for i = 1, #items do
    local item = items[i]
    local group = found[item.queue]
    if not group then
      group = {}
      found[item.queue] = group
      groups[#groups + 1] = group
    end
    group[#group + 1] = item
  end
  return groups
end
local checked, several = ARGV[3] ~= '' and ARGV[3], false
local at, n = 4, 0
while at <= #ARGV do
  local queue = ARGV[at]
  if n == 0 or queue ~= items[n].queue then
    repeat
      local area, name, text = 'Queue', 'queue', queue
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
        queue = text
        break
      end
      queue = nil
    until true
    several = n > 0 or several
  end
  local first = at + 6
  local last = first - 1
  if ARGV[at + 5] ~= '0' then
    last = last + whole('Put', 'n', ARGV[at + 5])
  end
  local item
  repeat
    local queue, at, first, last, checked, before = queue, at + 1, first, last, checked, items[n]
    local klass, data = ARGV[at + 1], ARGV[at + 2]
    if not klass then
      do
        local area, message = 'Put', 'Arg "klass" missing'
        error(area .. '(): ' .. message)
      end
    end
    local given = none
    if last == first + 1 and ARGV[first] == 'new' then
      checked = 'new'
    elseif last >= first then
      repeat
        local area, first, last = 'Put', first, last
        local found = {}
        if last < first then
          given = found
          break
        end
        if (last - first) % 2 == 0 or last > #ARGV then
          do
            local area, message = area, 'Odd number of additional args'
            error(area .. '(): ' .. message)
          end
        end
        for i = first, last, 2 do
          found[ARGV[i]] = ARGV[i + 1]
        end
        given = found
      until true
      checked = given.new and 'new' or checked or given.checked
    end
    if not checked then
      do
        local area, name, text = 'Put', 'data', data
        local ok, value, problem = pcall(cjson.decode, text)
        if not ok or problem then
          do
            local area, message = area, 'Arg "' .. name .. '" missing or not JSON: ' .. string.sub(tostring(text), 1, 200)
            error(area .. '(): ' .. message)
          end
        end
      end
    end
    local delay = 0
    if ARGV[at + 3] ~= '0' then
      do
        local area, name, text = 'Put', 'delay', ARGV[at + 3]
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
        delay = n
      end
    end
    local jid
    repeat
      local area, name, text = 'Put', 'jid', ARGV[at]
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
        jid = text
        break
      end
      jid = nil
    until true
    local job = {
      queue = queue,
      jid = jid,
      klass = klass,
      data = data,
      delay = delay,
      checked = checked or false,
      key = false, state = false,
    }
    if given == none then
      item = job
      break
    end
    local o, retries = given.o, given.retries
    if before and before.o and o == before.o and retries == before.words and delay == before.delay and
      last == first + 3 then
      job.given, job.more, job.retries = before.given, before.more, before.retries
    else
      seldom1('add_given', job, given)
      given = job.given
    end
    if o and retries and last == first + 3 and not (given.claim or given.share or given.watches) then
      job.o, job.words = o, retries
    end
    item = job
  until true
  if seen[item.jid] then
    do
      local area, message = 'Put', 'Job ' .. item.jid .. ' is named twice'
      error(area .. '(): ' .. message)
    end
  end
  n = n + 1
  items[n], seen[item.jid] = item, true
  at = last + 1
end
if n > 1000 then
  do
    local area, message = 'Put', 'More than 1000 jobs'
    error(area .. '(): ' .. message)
  end
end
if n > 0 then
  local left
  do
    local worker, groups, in_order = ARGV[2], several and grouped() or {items}, items
    do
      if redis.acl_check_cmd and not redis.acl_check_cmd('publish', prefix .. 'log') then
        error({err = 'NOPERM this user may not publish to the channel ' .. prefix .. 'log'})
      end
    end
    local keys = {prefix .. 'x:idle', prefix .. 'tracked', prefix .. 'x:empty', false}
    local plain, idle = #groups == 1 and not claiming and not batches, false
    for i = 1, #in_order do
      local item = in_order[i]
      local key = prefix .. 'j:' .. item.jid
      item.key, keys[i + 3] = key, key
      if item.depends and #item.depends > 0 or item.delay > 0 and #in_order > 1 then
        plain = false
      end
    end
    local existing
    do
      local keys = keys
      local count = 0
      for from = 1, #keys, 1000 do
        count = count + call('exists', unpack(keys, from, math.min(from + 999, #keys)))
      end
      existing = count
    end
    local tracked, known_empty = false, false
    if existing > 0 then
      idle = call('exists', prefix .. 'x:idle') == 1
      tracked = call('exists', prefix .. 'tracked') == 1
      existing = existing - (idle and 1 or 0) - (tracked and 1 or 0)
      known_empty = existing > 0 and call('exists', prefix .. 'x:empty') == 1
      plain = plain and existing == (known_empty and 1 or 0)
    end
    local found
    if not plain then
      found = seldom1('prepare', worker, groups, in_order)
    end
    for g = 1, #groups do
      if groups[g][1] then
        do
          local group, idle, tracked, known_empty = groups[g], idle, tracked, known_empty
          local queue = group[1].queue
          local quoted = cjson.encode(queue)
          local details = '{"q":' .. quoted .. '}'
          local text = ('[' .. string.format('%d', now) .. ',"put"' .. (details and ',' .. details or '') .. ']')
          local first, last = '{"jid":', ',"event":"put","queue":' .. quoted .. '}'
          if idle or 1 == 1 then
            first, last = '{"queue":' .. quoted .. ',"event":"put","jid":', '}'
          end
          do
            local queue, group = queue, group
            local first
            repeat
              if #stamp == 17 and string.sub(stamp, 11, 11) == '.' and now < 9000000000 then
                first = '-0.' .. string.sub(stamp, 1, 10) .. string.sub(stamp, 12)
                break
              end
              first = nil
            until true
            local digits = first and #group > 1 and string.sub(first, 4) + 0
            local work, n = none, 0
            for i = 1, #group do
              local item = group[i]
              if item.waits then
                call('zadd', prefix .. 'q:' .. queue .. '-depends', stamp, item.jid)
                item.state = 'depends'
              elseif item.delay > 0 then
                call('zadd', prefix .. 'q:' .. queue .. '-scheduled', string.format('%.17g', (now + item.delay)), item.jid)
                item.state = 'scheduled'
              else
                local score = item.score or item.at and seldom1('past_score', item) or false
                local share = turns and (item.share or item.given and item.given.share)
                if share and not score then
                  score = seldom1('fair_score', queue, item.priority, share, turns)
                end
                if not score and (item.priority or not first) then
                  score = seldom1('fractional_score', n, item.priority)
                elseif not score then
                  score = n == 0 and first or string.format('-0.%016d', digits + n)
                end
                if n == 0 then
                  work = {score, item.jid}
                else
                  work[2 * n + 1], work[2 * n + 2] = score, item.jid
                end
                n = n + 1
                item.state = 'waiting'
              end
            end
            do
              local run, operation, key, list = call, 'zadd', prefix .. 'q:' .. queue .. '-work', work
              for from = 1, #list, 1000 do
                run(operation, key, unpack(list, from, math.min(from + 999, #list)))
              end
            end
          end
          for i = 1, #group do
            local item = group[i]
            do
              local queue, item, text = queue, item, text
              local key, retries, tags = item.key, item.retries or '5', '[]'
              do
                local key, text, cap = key, text
                local length = try('rpush', key .. '-history', text)
                if length ~= 1 and length ~= 2 and type(length) == 'number' and (not cap or length > cap) then
                  seldom1('trim_history', key .. '-history', length, cap)
                end
              end
              if item.tags and #item.tags > 0 then
                seldom1('add_tags', item.jid, item.tags, 1)
                tags = cjson.encode(item.tags)
              end
              call('hset', key,
                'jid', item.jid,
                'klass', item.klass,
                'data', item.data,
                'priority', item.priority or '0',
                'tags', tags,
                'state', item.state,
                'worker', '',
                'expires', '0',
                'queue', queue,
                'retries', retries,
                'remaining', retries,
                'time', stamp, unpack(item.more or none))
              if item.waits then
                seldom1('keep_delay', key, item.delay, item.checked)
              end
            end
            try('publish', prefix .. 'log', (first .. cjson.encode(item.jid) .. last))
            if item.old and item.old.lost then
              do
                local jid, worker = item.jid, item.old.worker
                local message = cjson.encode({jid = jid, event = 'lock_lost', worker = worker})
                try('publish', prefix .. ('w:' .. worker), message)
                try('publish', prefix .. 'log', message)
              end
            end
          end
          do
            local queue = queue
            local queues = prefix .. 'queues'
            if not try('zrank', queues, queue) and try('zadd', queues, 'NX', stamp, queue) == 1 then
              try('zrem', prefix .. 'x:queues', queue)
              do
                local queue = queue
                try('publish', prefix .. 'x:queues', queue)
              end
            end
          end
          if tracked then
            do
              local channel, jids = 'put', seldom1('jids_of', group)
              local scores = try('zmscore', prefix .. 'tracked', unpack(jids))
              for i = 1, #scores do
                if scores[i] then
                  try('publish', prefix .. channel, jids[i])
                end
              end
            end
          end
          if known_empty then
            do
              local queue, known = queue, true
              if (known or call('exists', prefix .. 'x:empty') == 1)
                and try('sadd', prefix .. 'x:filled', queue) == 1 then
                call('expire', prefix .. 'x:filled', 1)
              end
            end
          end
          if idle then
            seldom1('wake_several', queue, seldom1('soonest', group), #group)
          end
        end
      end
    end
    if watching or batches then
      seldom1('watch_all', in_order)
    end
    if mortal then
      seldom1('enter_lives', in_order)
    end
    left = found
  end
  if left and left[1] then
    return left
  end
end

