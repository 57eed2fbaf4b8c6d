-- peek: the jobs that a pop would return, without locking them. Moves due jobs into work.
--
-- KEYS[1]  the namespace prefix
-- ARGV     NOW, queue, count [, 'beside', cursor]: that of the last call, or ''
-- Returns  a JSON array of at most count jobs, without those whose lives have ended, of which it passes
--          over about 1000;
--          beside: an array of at most 250 of the jobs, as far as 256 KiB of JSON and 2 MiB of large
--          data go, of a cursor, which is empty at the end, and of the large data. There may be fewer
--          jobs than wanted, or none, before the end. Dependents that are thousands in all are not shown,
--          but named in left_out
-- Errors   Queue(), Peek()
-- Cost     4 commands, 4 for each job; what is due, of which it moves at most count, and with beside 250
--          of each kind: 3 for each scheduled job, 8 for each that recurs
-- Repeat   safe
-- Needs    exists expire hdel hget hmget hset hstrlen lindex llen lpush lrange ltrim publish rpush
--          scard smembers time unlink zadd zcard zcount zincrby zrange zrangebyscore zrank zrem
--          zrevrange zrevrangebyscore zscore

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
local seldom1




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







local related_left


local function job_json(job, tracked, more, newest)
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

local large = {bytes = 0, text = 0}













local function open_list(area, kind, name)
  local key
  repeat
    local area, kind, name = area, kind, name
    local parts = {
      waiting = 'work', running = 'locks', stalled = 'locks', scheduled = 'scheduled',
      depends = 'depends', recurring = 'recur',
    }
    if parts[kind] then
      key = (prefix .. 'q:' .. (named('Queue', 'queue', name)) .. '-' .. parts[kind])
      break
    elseif kind == 'failed' then
      key = prefix .. 'f:' .. named(area, 'group', name)
      break
    elseif kind == 'tagged' then
      key = prefix .. 't:' .. named(area, 'tag', name)
      break
    elseif kind == 'complete' then
      key = prefix .. 'completed'
      break
    elseif kind == 'tracked' then
      key = prefix .. 'tracked'
      break
    end
    do
      local area, message = area, 'Unknown list "' .. tostring(kind) .. '"'
      error(area .. '(): ' .. message)
    end
    key = nil
  until true
  local list = {kind = kind, key = key, from = 0, falls = kind == 'waiting' or kind == 'complete'}
  if kind == 'failed' then
    list.total = call('llen', key)
  elseif kind == 'running' then
    list.from = call('zcount', key, '-inf', '(' .. stamp)
    list.total = call('zcount', key, stamp, '+inf')
  elseif kind == 'stalled' then
    list.total = call('zcount', key, '-inf', stamp)
  else
    list.total = call('zcard', key)
  end
  return list
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

seldom1 = function(which, ...)
if which == 'may_write' then
local key = ...
  return not redis.acl_check_cmd or redis.acl_check_cmd('del', key)
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
elseif which == 'move_history' then
local jid, text = ...
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
  if not seldom1('may_write', key) then
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
  if state ~= 'scheduled' or not has_option(stored, 'c') then
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
  local text = has_option(stored, 'p') and try('hget', prefix .. 'j:' .. jid, 'x:progress')
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
elseif which == 'has_room' then
local jid = ...
  if large.text >= 262144 then
    return false
  end
  local size = large.bytes > 0 and try('hstrlen', prefix .. 'j:' .. jid, 'data')
  return type(size) ~= 'number' or size < 4096 or large.bytes + size <= 2097152
elseif which == 'with_large' then
local text, rest = ...
  if #large == 0 and rest == '' then
    return text
  end
  return {text, rest, unpack(large)}
elseif which == 'children_with_room' then
local queue, wanted, bytes = ...
  local largest = 1
  local due = call('zrangebyscore', prefix .. 'q:' .. queue .. '-recur', 0, stamp, 'LIMIT', 0, wanted)
  for i = 1, #due do
    largest = math.max(largest, finite(try('hstrlen', prefix .. 'r:' .. due[i], 'data'), 0))
  end
  return math.max(1, math.min(wanted, math.floor(bytes / largest)))
elseif which == 'bring_due' then
local queue, recur, scheduled, limit = ...
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
  if limit <= 0 or not seldom1('may_write', work) then
    return
  end
  call('zrem', work, '')
  if recur then
    spawn_all(queue, limit)
  end
  if scheduled then
    move_scheduled(queue, limit)
  end
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
elseif which == 'after_cursor' then
local area, list, cursor = ...
local function reject(area, message)
  error(area .. '(): ' .. message)
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
elseif which == 'cursor_at' then
local list, offset, jid, score = ...
  if list.kind == 'failed' then
    score = string.format('%d', list.total - 1 - offset)
  end
  return score .. ' ' .. jid
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
local count = whole('Peek', 'count', ARGV[3])
local beside = ARGV[4] == 'beside'
related_left = beside and 4000
local out, passed = {}, 0
local function show(key, jid)
  local job = try('hmget', prefix .. 'j:' .. jid, 'klass', 'queue', 'priority', 'retries', 'remaining', 'data', 'tags', 'time', 'x:o', 'failure', 'spawned_from_jid', 'history', 'jid', 'state', 'worker', 'expires')
  if job[13] and job[9] and seldom1('is_over', jid, job[9], 'waiting') then
    passed = passed + 1
  elseif job[13] then
    local text = job_json(job, (type(try('zscore', prefix .. 'tracked', jid)) == 'string'), beside and seldom1('set_beside', job))
    out[#out + 1], large.text = text, large.text + #text
  elseif seldom1('may_write', key) then
    return 1 - call('zrem', key, jid)
  end
  return 1
end
local function show_some(key, jids)
  local kept = 0
  for _, jid in ipairs(jids) do
    kept = kept + show(key, jid)
  end
  return kept
end
local room, looked = math.min(count, 250), 0
local function show_from(list, cursor, most)
  local offset = seldom1('after_cursor', 'Peek', list, cursor)
  list.total = math.min(list.total, offset + most)
  while #out < room and looked < 500 do
    local wanted = math.min(room - #out, 500 - looked)
    local jids, scores = read_list(list, offset, wanted)
    for i, jid in ipairs(jids) do
      if not seldom1('has_room', jid) then
        return cursor
      end
      local kept = show(list.key, jid)
      offset, looked, list.total = offset + kept, looked + 1, list.total - 1 + kept
      cursor = seldom1('cursor_at', list, offset, jid, scores[i])
    end
    if #jids < wanted then
      return nil
    end
  end
  return cursor
end
local function bring_some(work, moved)
  local recur, scheduled = (call('zcount', prefix .. 'q:' .. queue .. '-recur', '-inf', stamp) > 0), (call('zcount', prefix .. 'q:' .. queue .. '-scheduled', '-inf', stamp) > 0)
  local wanted = count - #out - moved
  local some = math.min(wanted, room - #out)
  if not (recur or scheduled) or some <= 0 then
    return nil
  elseif recur then
    some = seldom1('children_with_room', queue, some, 2097152)
  end
  seldom1('bring_due', queue, recur, scheduled, some)
  work.total = call('zcard', work.key)
  local is_left = some < wanted and ((call('zcount', prefix .. 'q:' .. queue .. '-recur', '-inf', stamp) > 0) or (call('zcount', prefix .. 'q:' .. queue .. '-scheduled', '-inf', stamp) > 0))
  return is_left and seldom1('may_write', work.key) and moved + some or nil
end
local function peek_from(cursor)
  local part, place = string.match(cursor, '^([ldw])(.*)$')
  if not part and cursor ~= '' then
    do
      local area, message = 'Peek', 'Arg "cursor" is no cursor: ' .. string.sub(cursor, 1, 200)
      error(area .. '(): ' .. message)
    end
  end
  local moved = part == 'd' and whole('Peek', 'cursor', place) or 0
  local work = open_list('Peek', 'waiting', queue)
  if not part or part == 'l' then
    local after = show_from(open_list('Peek', 'stalled', queue), place or '', count)
    if after then
      return 'l' .. after
    end
  end
  if part ~= 'w' then
    moved, place = bring_some(work, moved), ''
    if moved then
      return string.format('d%d', moved)
    end
  end
  local after = show_from(work, place, math.huge)
  return after and 'w' .. after or ''
end
if beside then
  local cursor = peek_from(ARGV[5] or '')
  return seldom1('with_large', joined(out), cursor)
end
do
  local locks, work = prefix .. 'q:' .. queue .. '-locks', prefix .. 'q:' .. queue .. '-work'
  local lost = call('zrangebyscore', locks, '-inf', stamp, 'LIMIT', 0, count)
  local recur, scheduled = (call('zcount', prefix .. 'q:' .. queue .. '-recur', '-inf', stamp) > 0), (call('zcount', prefix .. 'q:' .. queue .. '-scheduled', '-inf', stamp) > 0)
  call('zcard', work)
  show_some(locks, lost)
  if recur or scheduled then
    seldom1('bring_due', queue, recur, scheduled, count - #out)
  end
  local shown = 0
  while #out < count and passed < 1000 do
    local jids = call('zrevrange', work, shown, shown + count - #out - 1)
    if #jids == 0 then
      break
    end
    shown = shown + show_some(work, jids)
  end
end
return joined(out)

