-- wake: wakes an idle worker of each given queue, or of every known queue that has jobs for one.
--
-- KEYS[1]  the namespace prefix
-- ARGV     NOW, queue...; or '' and the cursor of the last call, or '': at most 500 of all queues,
--          fewer if many workers do not listen. Woken are those of queues with jobs that are ready, or
--          due within an hour, if no worker waits for them
-- Returns  nil; of all queues a cursor, which is empty at the end
-- Errors   Wake()
-- Cost     1 command a queue, 2 more for a worker that is woken; of all queues up to 6 more each
-- Repeat   once
-- Needs    exists get hset lrange publish sismember srem time zadd zcard zcount zpopmax zpopmin
--          zrange zrank zrevrange zscore

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
seldom1 = function(which, ...)
if which == 'each_queue' then
local area, cursor, count, visit = ...
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
elseif which == 'wake' then
local queue = ...
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
local function has_jobs(queue, worker, soon)
  if call('exists', prefix .. 'q:' .. queue .. '-work') == 1 then
    return true
  end
  local soonest = now + soon
  for _, part in ipairs({'scheduled', 'recur', 'locks'}) do
    local due = tonumber(try('zrange', prefix .. 'q:' .. queue .. '-' .. part, 0, 0, 'WITHSCORES')[2])
    soonest = due and math.min(due, soonest) or soonest
  end
  return soonest < now + soon and (soonest <= now or not is_claimed(queue, soonest, worker))
end

local function wake_for_jobs(queue)
  if has_jobs(queue, '', 3600) then
    seldom1('wake', queue)
  end
  return unheard >= 500
end
if ARGV[2] == '' then
  local cursor
  do
    local area, name, text = 'Wake', 'cursor', ARGV[3]
    if not text then
      local words = {
        Job = 'no jid provided', Recurring = 'no jid provided', Queue = 'no queue name provided',
      }
      do
        local area, message = area, words[area] or 'Arg "' .. name .. '" missing'
        error(area .. '(): ' .. message)
      end
    end
    cursor = text
  end
  if call('exists', prefix .. 'x:idle') == 0 then
    return ''
  end
  return seldom1('each_queue', 'Wake', cursor, 500, wake_for_jobs)
end
for i = 2, #ARGV do
  seldom1('wake', ARGV[i])
end

