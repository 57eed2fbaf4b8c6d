-- jobs: the jids of the jobs in a state.
--
-- KEYS[1]  the namespace prefix
-- ARGV     NOW, 'complete' [, offset, count [, 'total']], or
--          'complete', queue [, offset, count], or
--          running, stalled, scheduled, depends, recurring or waiting,
--          queue [, offset, count [, 'total']]
--          where a count of -1 means all running, stalled or recurring ones
--          complete, with three arguments or a first one that names a queue, is for clients in
--          PHP: all that are complete when the queue is '', else those among the last 1000 that
--          were completed in this queue
-- Returns  an array of jids; with 'total', JSON {total, jobs}, total being how many there are
-- Errors   Jobs()
-- Cost     1 command, with 'total' 2; scheduled: 3 for each due job besides, of which it moves at
--          most 1000; complete with a queue: 1 for each job that is looked at
-- Repeat   safe
-- Needs    exists expire hdel hget hmget hset lindex lpush lrange ltrim publish rpush time unlink
--          zadd zcard zcount zincrby zrange zrangebyscore zrem zrevrange zrevrangebyscore zscore

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

local function integer(area, name, text)
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
  return value
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








local function array(list)
  if #list == 0 then
    return '[]'
  end
  return cjson.encode(list)
end







local seldom1


seldom1 = function(which, ...)
if which == 'bring_due' then
local queue, recur, scheduled, limit = ...
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
elseif which == 'is_queue' then
local name = ...
  return call('zscore', prefix .. 'queues', name) or try('zscore', prefix .. 'x:queues', name)
end
end
local function names_queue()
  local first = ARGV[3]
  if #ARGV >= 5 and ARGV[5] ~= 'total' or first == ''
    or first and not finite(first) and seldom1('is_queue', first) then
    return first
  end
end
local function last_put(entries)
  for i = #entries, 1, -1 do
    local happened
    repeat
      local text = entries[i]
      if not text then
        happened = {}
        break
      end
      local ok, list = pcall(cjson.decode, text)
      if ok and type(list) == 'table' then
        happened = list
        break
      end
      happened = {}
    until true
    if happened[2] == 'put' and type(happened[3]) == 'table' then
      return happened[3].q or happened[3].queue
    end
  end
end
local function queue_of(jid)
  local history = prefix .. 'j:' .. jid .. '-history'
  return last_put(try('lrange', history, -4, -1)) or last_put(try('lrange', history, 0, -1))
end
local state = ARGV[2]
if not state then
  do
    local area, message = 'Jobs', 'Arg "state" missing'
    error(area .. '(): ' .. message)
  end
end
if state == 'complete' then
  local first, theirs = 3, names_queue()
  if theirs then
    first = 4
  end
  local offset, count, total
  do
    local first = first
    offset, count, total = integer('Jobs', 'offset', ARGV[first] or 0), integer('Jobs', 'count', ARGV[first + 1] or 25),
    ARGV[first + 2] == 'total'
  end
  if theirs and theirs ~= '' then
    do
      local queue, offset, count = theirs, offset, count
      local found, skip = {}, math.max(0, offset)
      for first = 0, 1000 - 1, 100 do
        local jids = call('zrevrange', prefix .. 'completed', first, first + 99)
        for i = 1, #jids do
          if #found >= count then
            return found
          elseif queue_of(jids[i]) == queue then
            if skip > 0 then
              skip = skip - 1
            else
              found[#found + 1] = jids[i]
            end
          end
        end
      end
      return found
    end
  end
  local key = prefix .. 'completed'
  do
    local jids, total = call('zrevrange', key, offset, offset + count - 1), total and call('zcard', key)
    if total then
      return '{"total":' .. total .. ',"jobs":' .. array(jids) .. '}'
    end
    return jids
  end
end
local queue
do
  local area, name, text = 'Jobs', 'queue', ARGV[3]
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
local offset, count, total
do
  local first = 4
  offset, count, total = integer('Jobs', 'offset', ARGV[first] or 0), integer('Jobs', 'count', ARGV[first + 1] or 25),
    ARGV[first + 2] == 'total'
end
local last = offset + count - 1
if state == 'waiting' then
  local key = prefix .. 'q:' .. queue .. '-work'
  local jids = count == 0 and {} or call('zrevrange', key, offset, last)
  do
    local jids, total = jids, total and call('zcard', key)
    if total then
      return '{"total":' .. total .. ',"jobs":' .. array(jids) .. '}'
    end
    return jids
  end
elseif state == 'running' then
  local key = prefix .. 'q:' .. queue .. '-locks'
  local jids = call('zrangebyscore', key, stamp, '+inf', 'LIMIT', offset, count)
  do
    local jids, total = jids, total and call('zcount', key, stamp, '+inf')
    if total then
      return '{"total":' .. total .. ',"jobs":' .. array(jids) .. '}'
    end
    return jids
  end
elseif state == 'stalled' then
  local key = prefix .. 'q:' .. queue .. '-locks'
  local jids = call('zrangebyscore', key, '-inf', stamp, 'LIMIT', offset, count)
  do
    local jids, total = jids, total and call('zcount', key, '-inf', stamp)
    if total then
      return '{"total":' .. total .. ',"jobs":' .. array(jids) .. '}'
    end
    return jids
  end
elseif state == 'scheduled' then
  local key, due = prefix .. 'q:' .. queue .. '-scheduled', 0
  if (call('zcount', prefix .. 'q:' .. queue .. '-scheduled', '-inf', stamp) > 0) then
    seldom1('bring_due', queue, false, true, 1000)
    due = call('zcount', key, 0, stamp)
  end
  if offset >= 0 and last >= 0 then
    offset, last = offset + due, last + due
  end
  do
    local jids, total = call('zrange', key, offset, last), total and call('zcard', key) - due
    if total then
      return '{"total":' .. total .. ',"jobs":' .. array(jids) .. '}'
    end
    return jids
  end
elseif state == 'depends' then
  local key = prefix .. 'q:' .. queue .. '-depends'
  do
    local jids, total = call('zrange', key, offset, last), total and call('zcard', key)
    if total then
      return '{"total":' .. total .. ',"jobs":' .. array(jids) .. '}'
    end
    return jids
  end
elseif state == 'recurring' then
  local key = prefix .. 'q:' .. queue .. '-recur'
  local jids = call('zrangebyscore', key, 0, '+inf', 'LIMIT', offset, count)
  do
    local jids, total = jids, total and call('zcount', key, 0, '+inf')
    if total then
      return '{"total":' .. total .. ',"jobs":' .. array(jids) .. '}'
    end
    return jids
  end
end
do
  local area, message = 'Jobs', 'Unknown type "' .. state .. '"'
  error(area .. '(): ' .. message)
end

