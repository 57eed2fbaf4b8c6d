-- worker.register: tells that a worker runs, and what it is, for 150 seconds. Releases some of the jobs
-- that waited for a complete one which had too many of them for one call.
--
-- KEYS[1]  the namespace prefix
-- ARGV     NOW, worker, age, json
--          age   how many seconds ago the worker was started
--          json  an object that describes it, for workers with 'registered'
-- Returns  1 if such jobs are still to be released, which sweep does; else nil
-- Errors   Worker.register()
-- Cost     4 commands; it releases at most 250 jobs
-- Repeat   safe
-- Needs    del exists expire hdel hmget hset publish sadd scard set sismember spop srem time zadd
--          zpopmax zpopmin zrange zrangebyscore zrem zrevrangebyscore zscore

local call = redis.call
local prefix = KEYS[1]
local try = redis.pcall

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










local releasable = math.huge
local function release_rest()
local function finite(text, default)
  local n = text and tonumber(text)
  if n and n - n == 0 then
    return n
  end
  return default
end
local function each_slice(run, operation, key, list)
  for from = 1, #list, 1000 do
    run(operation, key, unpack(list, from, math.min(from + 999, #list)))
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
local function write_turn(key, tenant, ends, waits, passed)
  try('zadd', key, ends, tenant)
  if not waits then
    try('del', key)
    try('zadd', key, ends, tenant)
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
  local key = prefix .. 'x:fair:' .. string.format('%.17g', priority) .. ':' .. queue
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
local unheard = 0
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
local function release_some(jid, others, dependents)
  local stuck = {}
  for i = 1, #others do
    local other = others[i]
    local dependencies = prefix .. 'j:' .. other .. '-dependencies'
    local ended = try('srem', dependencies, jid)
    if type(ended) == 'table' then
      stuck[#stuck + 1] = other
    elseif ended == 1 and call('scard', dependencies) == 0 and free(other, true) then
      call('sadd', dependencies, jid)
      stuck[#stuck + 1] = other
    end
  end
  each_slice(call, 'sadd', dependents, stuck)
end
local function of_this_life(others, dependents)
  if try('exists', dependents) == 0 then
    return others
  end
  local found = {}
  for i = 1, #others do
    if try('sismember', dependents, others[i]) == 0 then
      found[#found + 1] = others[i]
    end
  end
  return found
end
  local rest, released = prefix .. 'x:rest', 0
  releasable = math.min(releasable, 250)
  while releasable > 0 do
    local jid = try('zrange', rest, 0, 0)[1]
    if not jid then
      break
    end
    local dependents = prefix .. 'j:' .. jid .. '-dependents'
    local others = try('spop', prefix .. 'x:rest:' .. jid, releasable)
    releasable, released = releasable - #others, released + #others
    release_some(jid, of_this_life(others, dependents), dependents)
    if #others == 0 or try('exists', prefix .. 'x:rest:' .. jid) == 0 then
      call('zrem', rest, jid)
    end
  end
  return released, releasable <= 0
end

local worker
repeat
  local area, name, text = 'Worker.register', 'worker', ARGV[2]
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
    worker = text
    break
  end
  worker = nil
until true
local started = now - number('Worker.register', 'age', ARGV[3])
do
  local area, name, text = 'Worker.register', 'json', ARGV[4]
  local ok, value, problem = pcall(cjson.decode, text)
  if not ok or problem then
    do
      local area, message = area, 'Arg "' .. name .. '" missing or not JSON: ' .. string.sub(tostring(text), 1, 200)
      error(area .. '(): ' .. message)
    end
  end
end
call('set', prefix .. 'x:worker:' .. worker, stamp .. '|' .. string.format('%.17g', started) .. '|' .. ARGV[4], 'EX', 150)
try('zadd', prefix .. 'workers', stamp, worker)
if try('exists', prefix .. 'x:rest') == 1 then
  local _, more = release_rest()
  if more then
    return 1
  end
end

