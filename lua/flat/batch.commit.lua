-- batch.commit: ends the time in which a batch waits for more members. If it has no members left to
-- wait for, it goes where it goes when a job that it waits for is complete.
--
-- KEYS[1]  the namespace prefix
-- ARGV     NOW, jid
-- Returns  how many members it waits for
-- Errors   Batch.commit() when there is no such job, or it is not a batch
-- Cost     5 commands, 8 more if the batch is ready
-- Repeat   safe
-- Needs    del exists expire hdel hmget hset publish sadd scard sismember srem time unlink zadd
--          zcard zpopmax zpopmin zrangebyscore zrem zrevrangebyscore zscore

local call = redis.call
local prefix = KEYS[1]
local try = redis.pcall




local seldom1


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

seldom1 = function(which, ...)
if which == 'is_batch' then
local stored = ...
local function has_option(text, letter)
  return string.find(text, '^%a*' .. letter) ~= nil
end
  return stored and has_option(stored, 'b')
elseif which == 'free' then
local jid, released = ...
local function finite(text, default)
  local n = text and tonumber(text)
  if n and n - n == 0 then
    return n
  end
  return default
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
local function note_filled(queue, known)
  if (known or call('exists', prefix .. 'x:empty') == 1)
    and try('sadd', prefix .. 'x:filled', queue) == 1 then
    call('expire', prefix .. 'x:filled', 1)
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
local function score_of(queue, priority, stored, turns)
  return stored and has_option(stored, 'g') and fair_score(queue, priority, stored, turns) or
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
local job = call('hmget', prefix .. 'j:' .. jid, 'state', 'x:o')
if not job[1] then
  do
    local area, message = 'Batch.commit', 'Job ' .. jid .. ' does not exist'
    error(area .. '(): ' .. message)
  end
elseif not seldom1('is_batch', job[2]) then
  do
    local area, message = 'Batch.commit', 'Job ' .. jid .. ' is not a batch'
    error(area .. '(): ' .. message)
  end
end
local dependencies = prefix .. 'j:' .. jid .. '-dependencies'
local left = call('scard', dependencies)
if call('sismember', dependencies, 'x:open') == 0 then
  return left
end
if left == 1 and job[1] == 'depends' then
  local problem = seldom1('free', jid, true)
  if problem then
    do
      call('del', prefix .. 'x:none')
    end
    do
      local area, message = 'Batch.commit', problem
      error(area .. '(): ' .. message)
    end
  end
end
do
  local jid, other = jid, 'x:open'
  try('srem', prefix .. 'j:' .. other .. '-dependents', jid)
  try('srem', prefix .. 'j:' .. jid .. '-dependencies', other)
end
return left - 1

