-- queues: how many jobs a queue has, by state. Moves due jobs into work.
--
-- KEYS[1]  the namespace prefix
-- ARGV     NOW, [queue], or '', 'from', the cursor of the last call or ''
-- Returns  JSON of one queue, or of all in the order in which they were first seen:
--          {name, waiting, stalled, running, scheduled, depends, recurring, paused};
--          from: JSON {cursor, queues} of at most 200 queues, those that got their jobs by unfail
--          among them, and a cursor, which is empty at the end
-- Errors   Queues()
-- Cost     9 commands a queue, 3 for each due job, of which it moves at most 1000, and counts the others
--          as waiting. All queues at once take 20 us each
-- Repeat   safe
-- Needs    exists expire hdel hget hmget hset lindex lpush lrange ltrim publish rpush sismember
--          time unlink zadd zcard zcount zincrby zrange zrangebyscore zrank zrem zrevrange
--          zrevrangebyscore zscore

local call = redis.call
local prefix = KEYS[1]
local try = redis.pcall

local function required(area, name, text)
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










local budget = {due = 1000}
local function size(queue, part)
  do
    local text, default = try('zcard', prefix .. 'q:' .. queue .. '-' .. part), 0
    local n = text and tonumber(text)
    if n and n - n == 0 then
      return n
    end
    return default
  end
end
local seldom1

local function counts(queue)
  local due
  repeat
    local queue, part = queue, 'scheduled'
    do
      local text, default = try('zcount', prefix .. 'q:' .. queue .. '-' .. part, 0, stamp), 0
      local n = text and tonumber(text)
      if n and n - n == 0 then
        due = n
        break
      end
      due = default
      break
    end
    due = nil
  until true
  if due > 0 then
    due = seldom1('move_due', queue, due)
  end
  local stalled
  repeat
    local queue, part = queue, 'locks'
    do
      local text, default = try('zcount', prefix .. 'q:' .. queue .. '-' .. part, 0, stamp), 0
      local n = text and tonumber(text)
      if n and n - n == 0 then
        stalled = n
        break
      end
      stalled = default
      break
    end
    stalled = nil
  until true
  return cjson.encode({
    name = queue,
    waiting = size(queue, 'work') + due,
    stalled = stalled,
    running = size(queue, 'locks') - stalled,
    scheduled = size(queue, 'scheduled') - due,
    depends = size(queue, 'depends'),
    recurring = size(queue, 'recur'),
    paused = try('sismember', prefix .. 'paused_queues', queue) == 1,
  })
end
seldom1 = function(which, ...)
if which == 'move_due' then
local queue, due = ...
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
local function own_place(text)
  local _, values = split_options(text)
  return not values.g and (values.q == 'place' or values.q == 'last') and values.q or nil
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
  return stored and has_option(stored, 'g') and fair_score(queue, priority, stored, turns) or
    (finite(priority, 0) - now / 10000000000)
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
local function trim_history(key, length, cap)
  cap = cap or finite((try('hget', prefix .. 'config', 'max-job-history')), 100)
  if cap > 0 and length > cap then
    local first = call('lindex', key, 0)
    call('ltrim', key, -math.max(cap - 1, 1), -1)
    call('lpush', key, first)
  end
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
          trim_history(key .. '-history', length, cap)
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
local function count_until_now(queue, part)
  do
    local text, default = try('zcount', prefix .. 'q:' .. queue .. '-' .. part, 0, stamp), 0
    local n = text and tonumber(text)
    if n and n - n == 0 then
      return n
    end
    return default
  end
end
  pcall(bring_due, queue, false, true, math.min(due, budget.due))
  local left = count_until_now(queue, 'scheduled')
  budget.due = budget.due - (due - left)
  return left
elseif which == 'counts_from' then
local cursor = ...
local function finite(text, default)
  local n = text and tonumber(text)
  if n and n - n == 0 then
    return n
  end
  return default
end
local function reject(area, message)
  error(area .. '(): ' .. message)
end
local function read_list(list, offset, count)
  local last = math.min(offset + count, list.total) - 1
  if last < offset then
    return {}, {}
  elseif list.kind == 'failed' then
    return call('lrange', list.key, offset, last), {}
  end
  local found
  if list.falls then
    found = call('zrevrange', list.key, offset, last, 'WITHSCORES')
  else
    found = call('zrange', list.key, list.from + offset, list.from + last, 'WITHSCORES')
  end
  local jids, scores = {}, {}
  for i = 1, #found, 2 do
    jids[#jids + 1], scores[#scores + 1] = found[i], found[i + 1]
  end
  return jids, scores
end
local function precedes(a, b)
  for i = 1, math.min(#a, #b) do
    local x, y = string.byte(a, i), string.byte(b, i)
    if x ~= y then
      return x < y
    end
  end
  return #a < #b
end
local function rank_of(key, score, jid)
  if call('zscore', key, jid) == score then
    return call('zrank', key, jid), true
  end
  local low, high = call('zcount', key, '-inf', '(' .. score), call('zcount', key, '-inf', score)
  while low < high do
    local middle = math.floor((low + high) / 2)
    if precedes(jid, call('zrange', key, middle, middle)[1]) then
      high = middle
    else
      low = middle + 1
    end
  end
  return low, false
end
local function after_cursor(area, list, cursor)
  if cursor == '' then
    return 0
  end
  local place, jid = string.match(cursor, '^(%S+) (.*)$')
  local valid = place and (finite(place) or place == 'inf' or place == '-inf')
  if not valid or list.kind == 'failed' and not string.find(place, '^%d+$') then
    reject(area, 'Arg "cursor" is no cursor: ' .. string.sub(cursor, 1, 200))
  elseif list.kind == 'failed' then
    return math.max(list.total - place, 0)
  end
  local rank, found = rank_of(list.key, place, jid)
  if list.falls then
    return list.total - rank
  end
  return math.max(rank + (found and 1 or 0) - list.from, 0)
end
local function cursor_at(list, offset, jid, score)
  if list.kind == 'failed' then
    score = string.format('%d', list.total - 1 - offset)
  end
  return score .. ' ' .. jid
end
local function queues_of(key)
  return {kind = 'queues', key = prefix .. key, from = 0, total = finite(try('zcard', prefix .. key), 0)}
end
local function each_queue(area, cursor, count, visit)
  local letter, place = string.sub(cursor, 1, 1), string.sub(cursor, 2)
  for _, part in ipairs({{'k', 'queues'}, {'x', 'x:queues'}}) do
    if letter == '' or letter == part[1] then
      local list = queues_of(part[2])
      local offset = after_cursor(area, list, place)
      local some, scores = read_list(list, offset, count)
      for i = 1, #some do
        count = count - 1
        if visit(some[i]) or count == 0 then
          return part[1] .. cursor_at(list, offset + i - 1, some[i], scores[i])
        end
      end
      letter, place = '', ''
    end
  end
  return ''
end
  call('zcard', prefix .. 'queues')
  local found = {}
  local next_cursor = each_queue('Queues', cursor, 200, function(queue)
    found[#found + 1] = counts(queue)
  end)
  return found, next_cursor
end
end
if ARGV[3] == 'from' then
  local found, cursor = seldom1('counts_from', required('Queues', 'cursor', ARGV[4]))
  return '{"cursor":' .. cjson.encode(cursor) .. ',"queues":' .. joined(found) .. '}'
elseif ARGV[2] then
  return counts(ARGV[2])
end
local all = call('zrange', prefix .. 'queues', 0, -1)
for i = 1, #all do
  all[i] = counts(all[i])
end
return joined(all)

