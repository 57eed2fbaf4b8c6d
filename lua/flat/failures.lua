-- failures: the jobs of a failure group by klass, from the latest failure on. Changes nothing.
--
-- KEYS[1]  the namespace prefix
-- ARGV     NOW, group, cursor of the last call or '', count (at most 1000)
-- Returns  JSON {total, looked, cursor, klasses: [{klass, count, first, last, message, jid}, ...]}: how
--          many failed jobs there are, how many were looked at, a cursor, which is empty at the end, and
--          for each klass how many have failed, when first and last, and with what message last
-- Errors   Failures()
-- Cost     3 commands, and 1 for each job that it looks at
-- Repeat   safe
-- Needs    hmget llen lrange time zcard zcount zrange zrank zrevrange zscore

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
local seldom1

seldom1 = function(which, ...)
if which == 'after_cursor' then
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

local klasses, found = {}, {}
local group = named('Failures', 'group', ARGV[2])
local cursor
do
  local area, name, text = 'Failures', 'cursor', ARGV[3]
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
local count
do
  local area, name, text = 'Failures', 'count', ARGV[4]
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
  count = amount + 0
end
if count < 1 or count > 1000 then
  do
    local area, message = 'Failures', 'Arg "count" is not from 1 to 1000: ' .. ARGV[4]
    error(area .. '(): ' .. message)
  end
end
local list = open_list('Failures', 'failed', group)
local offset = seldom1('after_cursor', 'Failures', list, cursor)
local jids = read_list(list, offset, count)
for i = 1, #jids do
  do
    local jid = jids[i]
    local job = try('hmget', prefix .. 'j:' .. jid, 'klass', 'failure')
    local name, failure = job[1] or '', list_of(job[2])
    local klass, at = klasses[name], finite(failure.when)
    if not klass then
      klass = {klass = name, count = 0}
      klasses[name], found[#found + 1] = klass, klass
    end
    klass.count = klass.count + 1
    if at and (not klass.last or at > klass.last) then
      local message = type(failure.message) == 'string' and failure.message or ''
      klass.last, klass.message, klass.jid = at, string.sub(message, 1, 256), jid
    end
    klass.first = at and math.min(klass.first or at, at) or klass.first
  end
end
for i = 1, #found do
  found[i] = cjson.encode(found[i])
end
local next_cursor = #jids == count and seldom1('cursor_at', list, offset + count - 1, jids[count]) or ''
return '{"total":' .. list.total .. ',"looked":' .. #jids .. ',"cursor":' ..
  cjson.encode(next_cursor) .. ',"klasses":' .. joined(found) .. '}'

