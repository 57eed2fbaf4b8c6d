-- workers: the workers seen lately, with how many jobs each holds, or the jobs of one worker.
--
-- KEYS[1]  the namespace prefix
-- ARGV     NOW, [worker [, 'held' [, cursor]]], or '', first, last [, 'registered' or '' [, cursor]]: the
--          range of the list that is wanted, negative ones counted from its end, '' for all; cursor:
--          that of the last call, or ''
-- Returns  JSON of all, last seen first: {name, jobs, stalled} as counts, and with 'registered' the
--          text registered of those that have registered: SEEN|STARTED|JSON;
--          with a cursor JSON {cursor, workers} of at most 500, last seen last, and a cursor, which
--          is empty at the end;
--          of one: {jobs, stalled} as jids. A job that was timed out stays among them, even if
--          another worker has it; with 'held' it does not; with a cursor JSON {cursor, jobs,
--          stalled} of at most 500, the locks that end first before the others
-- Errors   Workers()
-- Cost     2 commands, 2 for each worker, 3 with 'registered', 1 for each job with 'held': all workers at
--          once take 4 us each; removes at most 1000 that were not seen for max-worker-age
-- Repeat   safe
-- Needs    del get hget hmget lrange time zcard zcount zrange zrangebyscore zrank zrem zrevrange
--          zrevrangebyscore zscore

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




local far = string.format('%.17g', (now + 8640000))
local seldom1

local function held(worker, jids)
  if ARGV[3] ~= 'held' then
    return jids
  end
  local kept = {}
  for _, jid in ipairs(jids) do
    local job = try('hmget', prefix .. 'j:' .. jid, 'worker', 'state')
    if job[1] == worker and job[2] == 'running' then
      kept[#kept + 1] = jid
    end
  end
  return kept
end
local function registered(worker)
  local text = try('get', prefix .. 'x:worker:' .. worker)
  local seen = type(text) == 'string' and finite(string.match(text, '^[^|]*'))
  return seen and seen > now - 150 and text or nil
end
seldom1 = function(which, ...)
if which == 'forget' then
local old = ...
local function may_write(key)
  return not redis.acl_check_cmd or redis.acl_check_cmd('del', key)
end
local function each_slice(run, operation, key, list)
  for from = 1, #list, 1000 do
    run(operation, key, unpack(list, from, math.min(from + 999, #list)))
  end
end
  if may_write(prefix .. 'workers') then
    for _, worker in ipairs(old) do
      call('del', prefix .. 'w:' .. worker .. ':jobs')
    end
    each_slice(call, 'zrem', prefix .. 'workers', old)
  end
elseif which == 'jobs_from' then
local worker, cursor = ...
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
local function read_from(key, cursor)
  local list = {kind = 'workers', key = key, from = 0, total = call('zcard', key)}
  local offset, next_cursor = after_cursor('Workers', list, cursor), ''
  local some, scores = read_list(list, offset, 500)
  if #some == 500 then
    next_cursor = cursor_at(list, offset + 500 - 1, some[500], scores[500])
  end
  return some, scores, next_cursor
end
  local jids, scores, next_cursor = read_from(prefix .. 'w:' .. worker .. ':jobs', cursor)
  local jobs, stalled = {}, {}
  for i, jid in ipairs(jids) do
    local part = finite(scores[i], far) > now and jobs or stalled
    part[#part + 1] = jid
  end
  return '{"cursor":' .. cjson.encode(next_cursor) .. ',"jobs":' .. array(held(worker, jobs)) ..
    ',"stalled":' .. array(held(worker, stalled)) .. '}'
end
end
local worker = ARGV[2]
if worker == '' then
  worker = nil
end
local first, last = 0, -1
if not worker then
  first = (ARGV[3] and ARGV[3] ~= '') and integer('Workers', 'first', ARGV[3]) or first
  last = (ARGV[4] and ARGV[4] ~= '') and integer('Workers', 'last', ARGV[4]) or last
end
do
  local age = finite(call('hget', prefix .. 'config', 'max-worker-age'), 86400)
  local old = call('zrangebyscore', prefix .. 'workers', 0, string.format('%.17g', (now - age)), 'LIMIT', 0, 1000)
  if #old > 0 then
    seldom1('forget', old)
  end
end
if worker and ARGV[3] == 'held' and ARGV[4] then
  return seldom1('jobs_from', worker, ARGV[4])
elseif worker then
  local key = prefix .. 'w:' .. worker .. ':jobs'
  return '{"jobs":' .. array(held(worker, call('zrevrangebyscore', key, far, stamp))) ..
    ',"stalled":' .. array(held(worker, call('zrevrangebyscore', key, stamp, 0))) .. '}'
end
local function counts(name)
  local key = prefix .. 'w:' .. name .. ':jobs'
  return cjson.encode({
    name = name,
    jobs = call('zcount', key, stamp, far),
    stalled = call('zcount', key, 0, stamp),
    registered = ARGV[5] == 'registered' and registered(name) or nil,
  })
end
local function counts_from(cursor)
local function reject(area, message)
  error(area .. '(): ' .. message)
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
local function read_from(key, cursor)
  local list = {kind = 'workers', key = key, from = 0, total = call('zcard', key)}
  local offset, next_cursor = after_cursor('Workers', list, cursor), ''
  local some, scores = read_list(list, offset, 500)
  if #some == 500 then
    next_cursor = cursor_at(list, offset + 500 - 1, some[500], scores[500])
  end
  return some, scores, next_cursor
end
  local some, _, next_cursor = read_from(prefix .. 'workers', cursor)
  for i = 1, #some do
    some[i] = counts(some[i])
  end
  return '{"cursor":' .. cjson.encode(next_cursor) .. ',"workers":' .. joined(some) .. '}'
end
if ARGV[6] then
  return counts_from(ARGV[6])
end
local all = call('zrevrange', prefix .. 'workers', first, last)
for i = 1, #all do
  all[i] = counts(all[i])
end
do
  local texts = all
  if #texts == 0 then
    return '[]'
  elseif #texts == 1 then
    return '[' .. texts[1] .. ']'
  elseif #texts == 2 then
    return '[' .. texts[1] .. ',' .. texts[2] .. ']'
  end
  return '[' .. table.concat(texts, ',') .. ']'
end

