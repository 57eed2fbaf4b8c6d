-- track: starts or stops tracking a job, or lists the tracked jobs.
--
-- KEYS[1]  the namespace prefix
-- ARGV     NOW, none, or: 'track' or 'untrack', jid [, 'tidy'], or: 'list', offset, count
--          tidy: some tracked jobs that are gone leave the list; the one to untrack may be gone
-- Returns  none: JSON {jobs, expired}, expired being the jids of jobs that are gone;
--          list: JSON {total, jobs} with jids, those of jobs that are gone among them;
--          else 1 when that changed something, 0 when not
-- Errors   Track() when there is no such job
-- Cost     2 commands, with tidy 14 more; none: 4 for each tracked job, however many these are: 1000
--          take 20 ms
-- Repeat   safe
-- Needs    exists hdel hget hmget hset lrange publish rpush scard smembers time zadd zcard zrange
--          zrem zscore

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
local seldom1












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


seldom1 = function(which, ...)
if which == 'readable' then
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
local function may_write(key)
  return not redis.acl_check_cmd or redis.acl_check_cmd('del', key)
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
  if not may_write(key) then
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
elseif which == 'untrack_gone' then
local limit = ...
local function each_slice(run, operation, key, list)
  for from = 1, #list, 1000 do
    run(operation, key, unpack(list, from, math.min(from + 999, #list)))
  end
end
  local tracked, sweep = prefix .. 'tracked', prefix .. 'x:sweep'
  local from, gone = finite(try('hget', sweep, 'tracked'), 0), {}
  local jids = try('zrange', tracked, from, from + limit - 1)
  for i = 1, #jids do
    if call('exists', prefix .. 'j:' .. jids[i]) == 0 then
      gone[#gone + 1] = jids[i]
    end
  end
  each_slice(try, 'zrem', tracked, gone)
  if #jids == limit then
    try('hset', sweep, 'tracked', from + limit - #gone)
  elseif from > 0 then
    try('hdel', sweep, 'tracked')
  end
end
end

local tracked = prefix .. 'tracked'
if not ARGV[2] then
  local found, expired = {}, {}
  for _, jid in ipairs(call('zrange', tracked, 0, -1)) do
    local job = try('hmget', prefix .. 'j:' .. jid, 'klass', 'queue', 'priority', 'retries', 'remaining', 'data', 'tags', 'time', 'x:o', 'failure', 'spawned_from_jid', 'history', 'jid', 'state', 'worker', 'expires')
    if job[13] then
      found[#found + 1] = job_json(job, true)
    else
      expired[#expired + 1] = jid
    end
  end
  return '{"jobs":' .. joined(found) .. ',"expired":' .. array(expired) .. '}'
end
local action = string.lower(ARGV[2])
if action == 'list' then
  local offset = integer('Track', 'offset', ARGV[3] or 0)
  local count = integer('Track', 'count', ARGV[4] or 25)
  local jids = call('zrange', tracked, offset, offset + count - 1)
  return '{"total":' .. call('zcard', tracked) .. ',"jobs":' .. array(jids) .. '}'
end
local jid
do
  local area, name, text = 'Track', 'jid', ARGV[3]
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
local may_be_gone = ARGV[4] == 'tidy' and action == 'untrack'
if call('exists', prefix .. 'j:' .. jid) == 0 and not (may_be_gone and (type(try('zscore', prefix .. 'tracked', jid)) == 'string')) then
  do
    local area, message = 'Track', 'Job does not exist'
    error(area .. '(): ' .. message)
  end
end
do
  if redis.acl_check_cmd and not redis.acl_check_cmd('publish', prefix .. 'log') then
    error({err = 'NOPERM this user may not publish to the channel ' .. prefix .. 'log'})
  end
end
if action == 'track' then
  local changed = call('zadd', tracked, stamp, jid)
  try('publish', prefix .. 'track', jid)
  if ARGV[4] == 'tidy' then
    seldom1('untrack_gone', 10)
  end
  return tostring(changed)
elseif action == 'untrack' then
  local changed = call('zrem', tracked, jid)
  try('publish', prefix .. 'untrack', jid)
  return tostring(changed)
end
do
  local area, message = 'Track', 'Unknown action "' .. ARGV[2] .. '"'
  error(area .. '(): ' .. message)
end

