-- recur.update: changes a recurring job; jobs that it has already put stay as they are.
--
-- KEYS[1]  the namespace prefix
-- ARGV     NOW, jid, then pairs: priority, interval, retries, data, klass, queue, backlog
-- Returns  1
-- Errors   Recur() when there is no such job or an option is unknown; nothing is written then
-- Cost     3 commands
-- Repeat   once
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



local jid
do
  local area, name, text = 'Recurring', 'jid', ARGV[2]
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
local key = prefix .. 'r:' .. jid
local old = call('hmget', key, 'queue', 'interval')
local queue, interval = old[1], finite(old[2], 0)
if not queue then
  do
    local area, message = 'Recur', 'No recurring job ' .. jid
    error(area .. '(): ' .. message)
  end
end
local numeric = {priority = true, interval = true, retries = true, backlog = true}
local changes
repeat
  local area, first, last = 'Recur', 3, #ARGV
  local found = {}
  if last < first then
    changes = found
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
  changes = found
until true
for option, value in pairs(changes) do
  if numeric[option] then
    changes[option] = number('Recur', option, value)
  elseif option == 'data' then
    do
      local area, name, text = 'Recur', 'data', value
      local ok, value, problem = pcall(cjson.decode, text)
      if not ok or problem then
        do
          local area, message = area, 'Arg "' .. name .. '" missing or not JSON: ' .. string.sub(tostring(text), 1, 200)
          error(area .. '(): ' .. message)
        end
      end
    end
  elseif option == 'queue' then
    repeat
      local area, name, text = 'Recur', 'queue', value
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
        break
      end
    until true
  elseif option ~= 'klass' then
    do
      local area, message = 'Recur', 'Unrecognized option "' .. option .. '"'
      error(area .. '(): ' .. message)
    end
  end
end
if changes.interval and changes.interval <= 0 then
  do
    local area, message = 'Recur', 'Arg "interval" must be greater than 0'
    error(area .. '(): ' .. message)
  end
end
local due = tonumber(call('zscore', prefix .. 'q:' .. queue .. '-recur', jid) or nil) or now
if changes.interval then
  due = due + changes.interval - interval
end
if changes.queue or changes.interval then
  local target = changes.queue or queue
  call('zadd', prefix .. 'q:' .. target .. '-recur', string.format('%.17g', due), jid)
  if target ~= queue then
    try('zrem', prefix .. 'q:' .. queue .. '-recur', jid)
  end
  if changes.queue then
    do
      local queue = target
      local queues = prefix .. 'queues'
      if not try('zrank', queues, queue) and try('zadd', queues, 'NX', stamp, queue) == 1 then
        try('zrem', prefix .. 'x:queues', queue)
        do
          local queue = queue
          try('publish', prefix .. 'x:queues', queue)
        end
      end
    end
  end
  do
    local queue, known = target
    if (known or call('exists', prefix .. 'x:empty') == 1)
      and try('sadd', prefix .. 'x:filled', queue) == 1 then
      call('expire', prefix .. 'x:filled', 1)
    end
  end
  wake_for(target, due - now)
end
for option, value in pairs(changes) do
  call('hset', key, option, value)
end
return true

