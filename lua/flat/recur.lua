-- recur: puts a job into a queue again and again, at an interval.
--
-- KEYS[1]  the namespace prefix
-- ARGV     NOW, queue, jid, klass, data, 'interval', seconds, offset, then pairs: priority n,
--          tags json, retries n, backlog n, keep 1 when one that exists keeps its time, if its
--          queue and interval do not change
-- Returns  the jid
-- Errors   Queue(), Recur()
-- Cost     4 commands
-- Repeat   once
-- Waits    for replicas
-- Needs    exists expire hmget hset publish sadd srem time zadd zpopmax zpopmin zrank zrem zscore

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

local unheard = 0
local function wake_for(queue, delay)
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
  return delay < 3600 and wake(queue)
end


local queue
repeat
  local area, name, text = 'Queue', 'queue', ARGV[2]
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
local jid
repeat
  local area, name, text = 'Recur', 'jid', ARGV[3]
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
local klass, data = ARGV[4], ARGV[5]
if not klass then
  do
    local area, message = 'Recur', 'Arg "klass" missing'
    error(area .. '(): ' .. message)
  end
end
do
  local area, name, text = 'Recur', 'data', data
  local ok, value, problem = pcall(cjson.decode, text)
  if not ok or problem then
    do
      local area, message = area, 'Arg "' .. name .. '" missing or not JSON: ' .. string.sub(tostring(text), 1, 200)
      error(area .. '(): ' .. message)
    end
  end
end
if ARGV[6] ~= 'interval' then
  do
    local area, message = 'Recur', 'schedule type "' .. tostring(ARGV[6]) .. '" unknown'
    error(area .. '(): ' .. message)
  end
end
local interval = number('Recur', 'interval', ARGV[7])
local offset = number('Recur', 'offset', ARGV[8])
if interval <= 0 then
  do
    local area, message = 'Recur', 'Arg "interval" must be greater than 0'
    error(area .. '(): ' .. message)
  end
end
local given
repeat
  local area, first, last = 'Recur', 9, #ARGV
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
local priority = number('Recur', 'priority', given.priority or 0)
local retries = number('Recur', 'retries', given.retries or 0)
local backlog = number('Recur', 'backlog', given.backlog or 0)
local tags = names('Recur', 'tags', given.tags)
local old = call('hmget', prefix .. 'r:' .. jid, 'count', 'queue', 'interval')
local kept = given.keep and old[2] == queue and finite(old[3]) == interval
  and call('zscore', prefix .. 'q:' .. queue .. '-recur', jid)
if not kept then
  call('zadd', prefix .. 'q:' .. queue .. '-recur', string.format('%.17g', (now + offset)), jid)
end
if old[2] and old[2] ~= queue then
  try('zrem', prefix .. 'q:' .. old[2] .. '-recur', jid)
end
call('hset', prefix .. 'r:' .. jid,
  'jid', jid,
  'klass', klass,
  'data', data,
  'priority', priority,
  'tags', array(tags),
  'state', 'recur',
  'queue', queue,
  'type', 'interval',
  'count', old[1] or 0,
  'interval', interval,
  'retries', retries,
  'backlog', backlog)
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
if not kept then
  do
    local queue, known = queue
    if (known or call('exists', prefix .. 'x:empty') == 1)
      and try('sadd', prefix .. 'x:filled', queue) == 1 then
      call('expire', prefix .. 'x:filled', 1)
    end
  end
  wake_for(queue, offset)
end
return jid

