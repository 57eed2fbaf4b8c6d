-- list: a page of a list of jobs, with what people want to know of each. Changes nothing: jobs that
-- have fallen due are shown where they are.
--
-- KEYS[1]  the namespace prefix
-- ARGV     NOW, list, name, offset, count (at most 500), bytes
--          list, and what is named: waiting, running, stalled, scheduled, depends, recurring, a queue;
--          failed, a group; tagged, a tag; complete, tracked, nothing
--          bytes: how much to show of the data of each, or 0
-- Returns  JSON {total, items}, with fewer items than wanted if they have more than 2 MiB of data to
--          show, but one if there is any: jid, klass, queue, state, priority, tags, retries,
--          remaining, worker, since, expires, due, fell_due, failure, parked_by, interval, size, data
-- Errors   List(), Queue()
-- Cost     2 commands, 2 for each job; 2 more with data, 1 more for each that is scheduled, in a list
--          of other jobs
-- Repeat   safe
-- Needs    hget hmget hstrlen llen lrange time zcard zcount zrange zrevrange zscore

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







local function parked_by(state, time, parked)
  local since, name = string.match(type(parked) == 'string' and parked or '', '^(%S*) (.+)$')
  return state == 'scheduled' and since == (time or '') and name or nil
end

local searched = 0




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
if which == 'names_of' then
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
local function data_of(key)
  local size = try('hstrlen', key, 'data')
  if type(size) ~= 'number' or size > 262144 then
    return ''
  end
  searched = searched + size
  return try('hget', key, 'data')
end
  local data = data_of(key)
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

local offset = whole('List', 'offset', ARGV[4])
local count, bytes = whole('List', 'count', ARGV[5]), whole('List', 'bytes', ARGV[6])
if count > 500 then
  do
    local area, message = 'List', 'Arg "count" is more than ' .. 500 .. ': ' .. ARGV[5]
    error(area .. '(): ' .. message)
  end
end
local list = open_list('List', ARGV[2], ARGV[3])
local jids, scores = read_list(list, offset, count)
return '{"total":' .. list.total .. ',"items":' .. summaries(list, jids, scores, bytes, true) .. '}'

