-- find: the jobs of a list that have a klass, a tag, or a text in their jid or data. Changes nothing.
--
-- KEYS[1]  the namespace prefix
-- ARGV     NOW, list, name, cursor, count, limit, bytes, klass, tag, text in the jid, text in the data
--          list, name, bytes: as in list
--          cursor: what the last call returned, or ''
--          count: how many jobs to look at, at most 1000, fewer if they have more than 2 MiB of data
--          to search; limit: when to stop, or 0
--          an empty klass, tag or text matches all
-- Returns  JSON {looked, cursor, items}: how many were looked at, a cursor, which is empty at the end
--          of the list, and what list shows of those that were found
-- Errors   Find(), Queue()
-- Cost     3 commands, 1 more unless it comes to the end, and 1 for each job that it looks at; 2
--          more for text in the data; 3 for each that it finds. A cursor whose job has left costs 1
--          for each time that the jobs with its score can be halved
-- Repeat   safe
-- Needs    hget hmget hstrlen llen lrange time zcard zcount zrange zrank zrevrange zscore

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
local seldom1







local function not_empty(text)
  return text and text ~= '' and text or nil
end
local searched = 0


local function matches(filter, key, jid)
  if filter.jid and not string.find(jid, filter.jid, 1, true) then
    return false
  end
  if filter.klass or filter.tag then
    local job = try('hmget', key, 'klass', 'tags')
    if filter.klass and job[1] ~= filter.klass
      or filter.tag and not seldom1('has_name', seldom1('names_of', job[2]), filter.tag) then
      return false
    end
  end
  local data = filter.data and seldom1('data_of', key)
  return not filter.data or type(data) == 'string' and string.find(data, filter.data, 1, true) ~= nil
end
local function search(area, list, cursor, count, limit, filter)
  local offset = seldom1('after_cursor', area, list, cursor)
  local jids
  repeat
    local list, offset, count = list, offset, count
    local last = math.min(offset + count, list.total) - 1
    if last < offset then
      jids = {}
      break
    elseif list.kind == 'failed' then
      jids = call('lrange', list.key, offset, last)
      break
    elseif list.falls then
      jids = call('zrevrange', list.key, offset, last)
      break
    end
    jids = call('zrange', list.key, list.from + offset, list.from + last)
  until true
  local found, theirs = {}, {}
  for i = 1, #jids do
    local jid = jids[i]
    if matches(filter, list.kind == 'recurring' and (prefix .. 'r:' .. jid) or (prefix .. 'j:' .. jid), jid) then
      found[#found + 1], theirs[#theirs + 1] = jid, (list.kind ~= 'failed' and call('zscore', list.key, jid))
    end
    if i == count or #found == limit and limit > 0 or searched >= 2097152 then
      return found, theirs, i, seldom1('cursor_at', list, offset + i - 1, jid, (list.kind ~= 'failed' and call('zscore', list.key, jid)))
    end
  end
  return found, theirs, #jids, ''
end






local function parked_by(state, time, parked)
  local since, name = string.match(type(parked) == 'string' and parked or '', '^(%S*) (.+)$')
  return state == 'scheduled' and since == (time or '') and name or nil
end




local function job_summary(list, jid, score)
  local job = try('hmget', prefix .. 'j:' .. jid, 'klass', 'queue', 'state', 'priority', 'tags', 'retries',
    'remaining', 'worker', 'expires', 'time', 'failure', 'x:parked', 'scheduled', 'x:undelayed')
  local state, tags, failure = job[3], job[5], job[11]
  local is_locked = list.kind == 'running' or list.kind == 'stalled'
  local shown = {
    jid = jid, klass = job[1], queue = job[2], state = state, priority = job[4],
    tags = tags and #tags > 2 and seldom1('names_of', tags) or nil, retries = job[6], remaining = job[7],
    worker = job[8], since = job[10], parked_by = job[12] and parked_by(state, job[10], job[12]) or nil,
    failure = failure and failure ~= '{}' and seldom1('failure_summary', failure) or nil,
    expires = is_locked and score or state == 'running' and job[9] or nil,
  }
  if list.kind == 'scheduled' then
    shown.due = score
  elseif state == 'scheduled' or state == 'depends' then
    shown.due = seldom1('due_elsewhere', jid, job[2], state, job[13], job[14])
  end
  shown.fell_due = state == 'scheduled' and finite(shown.due, math.huge) <= now or nil
  return shown
end
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
elseif which == 'names_of' then
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
  local found = {}
  for _, name in ipairs(list_of(text)) do
    if type(name) == 'string' or type(name) == 'number' then
      found[#found + 1] = tostring(name)
    end
  end
  return found
elseif which == 'data_of' then
local key = ...
  local size = try('hstrlen', key, 'data')
  if type(size) ~= 'number' or size > 262144 then
    return ''
  end
  searched = searched + size
  return try('hget', key, 'data')
elseif which == 'has_name' then
local list, name = ...
  for i = 1, #list do
    if list[i] == name then
      return true
    end
  end
  return false
elseif which == 'due_elsewhere' then
local jid, queue, state, scheduled, undelayed = ...
  if state == 'scheduled' and queue then
    local due = try('zscore', prefix .. 'q:' .. queue .. '-scheduled', jid)
    return type(due) == 'string' and due or nil
  end
  return state == 'depends' and not undelayed and scheduled or nil
elseif which == 'failure_summary' then
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
  local failure = list_of(text)
  if type(failure.group) ~= 'string' then
    return nil
  end
  local message = type(failure.message) == 'string' and failure.message or ''
  return {
    group = failure.group, message = string.sub(message, 1, 256),
    when = finite(failure.when, 0), worker = type(failure.worker) == 'string' and failure.worker or nil,
  }
elseif which == 'recurring_summary' then
local jid, score = ...
  local job = try('hmget', prefix .. 'r:' .. jid, 'klass', 'queue', 'priority', 'tags', 'retries', 'interval')
  return {
    jid = jid, klass = job[1], queue = job[2], priority = job[3], tags = seldom1('names_of', job[4]),
    retries = job[5], interval = job[6], due = score, fell_due = finite(score, math.huge) <= now,
  }
elseif which == 'shown_data' then
local key, bytes = ...
  local data = seldom1('data_of', key)
  if type(data) ~= 'string' or string.find(data, '^%s*{.*"x:codec"') then
    return data
  end
  return string.sub(data, 1, bytes)
end
end
local function summaries(list, jids, scores, bytes, may_stop)
  local shown = {}
  for i = 1, #jids do
    if may_stop and searched >= 2097152 then
      break
    end
    local jid, recurs = jids[i], list.kind == 'recurring'
    local key = recurs and (prefix .. 'r:' .. jid) or (prefix .. 'j:' .. jid)
    local job = recurs and seldom1('recurring_summary', jid, scores[i]) or job_summary(list, jid, scores[i])
    local size = try('hstrlen', key, 'data')
    job.size = type(size) == 'number' and size or 0
    job.data = bytes > 0 and seldom1('shown_data', key, bytes) or nil
    shown[i] = cjson.encode(job)
  end
  do
    local texts = shown
    if #texts == 0 then
      return '[]'
    elseif #texts == 1 then
      return '[' .. texts[1] .. ']'
    elseif #texts == 2 then
      return '[' .. texts[1] .. ',' .. texts[2] .. ']'
    end
    return '[' .. table.concat(texts, ',') .. ']'
  end
end

local cursor
do
  local area, name, text = 'Find', 'cursor', ARGV[4]
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
local count, limit = whole('Find', 'count', ARGV[5]), whole('Find', 'limit', ARGV[6])
local bytes = whole('Find', 'bytes', ARGV[7])
if count < 1 or count > 1000 then
  do
    local area, message = 'Find', 'Arg "count" is not from 1 to ' .. 1000 .. ': ' .. ARGV[5]
    error(area .. '(): ' .. message)
  end
end
local list = open_list('Find', ARGV[2], ARGV[3])
local jids, scores, looked, next_cursor =
  search('Find', list, cursor, count, limit, ({ klass = (ARGV[8] and ARGV[8] ~= '' and ARGV[8] or nil), tag = not_empty(ARGV[8 + 1]), jid = not_empty(ARGV[8 + 2]), data = not_empty(ARGV[8 + 3]), }))
return '{"looked":' .. looked .. ',"cursor":' .. cjson.encode(next_cursor) ..
  ',"items":' .. summaries(list, jids, scores, bytes) .. '}'

