-- get: one job.
--
-- KEYS[1]  the namespace prefix
-- ARGV     NOW, jid
-- Returns  its JSON, or nil
-- Errors   Job()
-- Cost     4 commands
-- Repeat   safe
-- Needs    exists hdel hmget lrange rpush smembers zscore

local call = redis.call
local prefix = KEYS[1]
local try = redis.pcall
local function finite(text, default)
  local n = tonumber(text)
  if n and n - n == 0 then
    return n
  end
  return default
end

local function required(area, name, text)
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



local function array(list)
  if #list == 0 then
    return '[]'
  end
  return cjson.encode(list)
end
local seldom1





local function entry_object(text)
  local when, what, details = string.match(text, '^%[(%-?%d+),("[^"\\]*"),{(.+)}%]$')
  if when then
    return '{' .. details .. ',"when":' .. when .. ',"what":' .. what .. '}'
  end
  when, what = string.match(text, '^%[(%-?%d+),("[^"\\]*")%]$')
  if when then
    return '{"when":' .. when .. ',"what":' .. what .. '}'
  end
  return seldom1('unusual_entry', text)
end
local function history_json(jid)
  local list = try('lrange', (prefix .. 'j:' .. jid) .. '-history', 0, -1)
  for i = 1, #list do
    list[i] = entry_object(list[i])
  end
  do
    local texts = list
    if #texts == 0 then
      return '[]'
    end
    return '[' .. table.concat(texts, ',') .. ']'
  end
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
  local text = '[' .. string.format('%d', at) .. ',' .. what
  if details then
    return text .. ',' .. details .. ']'
  end
  return text .. ']'
end
local function move_stage(key, stage)
  local popped, failed, done = finite(stage.popped), finite(stage.failed), finite(stage.done)
  local queue = cjson.encode({q = (type(stage.q) == 'string' and stage.q or nil)})
  try('rpush', key, entry(finite(stage.put, 0), '"put"', queue))
  if popped then
    local worker = cjson.encode({worker = (type(stage.worker) == 'string' and stage.worker or nil)})
    try('rpush', key, entry(popped, '"popped"', worker))
  end
  if failed then
    try('rpush', key, entry(failed, '"failed"'))
  end
  if done then
    try('rpush', key, entry(done, '"done"'))
  end
end
  local key = (prefix .. 'j:' .. jid) .. '-history'
  if not may_write(key) then
    return
  end
  call('hdel', (prefix .. 'j:' .. jid), 'history') -- first: it needs no memory
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
elseif which == 'options_member' then
local text = ...
local function split_options(text)
  local letters, body = string.match(text or '', '^(%a+)|(.*)$')
  local ok, values = pcall(cjson.decode, body or '')
  if ok and type(values) == 'table' then
    return letters, values
  end
  return '', {}
end
  local letters = split_options(text)
  if letters == '' then
    return ''
  end
  return ',"x":' .. string.match(text, '|(.*)$')
end
end

local function relations_json(jid)
  local dependents = (prefix .. 'j:' .. jid) .. '-dependents'
  local dependencies = (prefix .. 'j:' .. jid) .. '-dependencies'
  if call('exists', dependents, dependencies) == 0 then
    return ',"dependents":' .. '[]' .. ',"dependencies":' .. '[]'
  end
  return ',"dependents":' .. array(try('smembers', dependents)) ..
    ',"dependencies":' .. array(try('smembers', dependencies))
end

do
  local run, jid = call, required('Job', 'jid', ARGV[2])
  local job = run('hmget', (prefix .. 'j:' .. jid), 'klass', 'queue', 'priority', 'retries', 'remaining', 'data', 'tags', 'time', 'x:o', 'failure', 'spawned_from_jid', 'history', 'jid', 'state', 'worker', 'expires')
  if job[13] then
    do
      local job, tracked, more = job, (type(try('zscore', prefix .. 'tracked', jid)) == 'string')
      local jid, tags, failure = job[13], job[7], job[10]
      do
        local jid, text = jid, job[12]
        if text then
          seldom1('move_history', jid, text)
        end
      end
      local text = cjson.encode({
        jid = jid,
        klass = job[1],
        state = job[14],
        queue = job[2],
        worker = job[15] or '',
        tracked = tracked,
        expires = finite(job[16], 0),
        retries = finite(job[4], 0),
        remaining = math.floor(finite(job[5], 0)),
        data = job[6],
        spawned_from_jid = job[11],
      })
      return string.sub(text, 1, -2) ..
        ',"priority":' .. string.format('%.17g', (finite(job[3], 0))) ..
        ',"tags":' .. (tags and #tags > 2 and seldom1('readable', tags) or '[]') ..
        ',"failure":' .. (failure and failure ~= '{}' and seldom1('readable', failure) or '{}') ..
        ',"history":' .. history_json(jid) ..
        relations_json(jid) .. (job[9] and seldom1('options_member', job[9]) or '') ..
        (more or '') .. '}'
    end
  end
end

