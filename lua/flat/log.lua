-- log: adds an entry to a job's history.
--
-- KEYS[1]  the namespace prefix
-- ARGV     NOW, jid, message [, json]
-- Returns  nil
-- Errors   Log() when there is no such job
-- Cost     2 commands
-- Repeat   once
-- Needs    hdel hget hmget lindex llen lpush ltrim rpush time

local call = redis.call
local prefix = KEYS[1]
local try = redis.pcall

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

local function record(key, text, cap)
  local length = try('rpush', key .. '-history', text)
  if length ~= 1 and length ~= 2 and type(length) == 'number' and (not cap or length > cap) then
    seldom1('trim_history', key .. '-history', length, cap)
  end
  return length
end


seldom1 = function(which, ...)
if which == 'trim_history' then
local key, length, cap = ...
local function finite(text, default)
  local n = text and tonumber(text)
  if n and n - n == 0 then
    return n
  end
  return default
end
  cap = cap or finite((try('hget', prefix .. 'config', 'max-job-history')), 100)
  if cap > 0 and length > cap then
    local first = call('lindex', key, 0)
    call('ltrim', key, -math.max(cap - 1, 1), -1)
    call('lpush', key, first)
  end
elseif which == 'move_history' then
local jid, text = ...
local function finite(text, default)
  local n = text and tonumber(text)
  if n and n - n == 0 then
    return n
  end
  return default
end
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
elseif which == 'strict_json' then
local area, name, text = ...
local function reject(area, message)
  error(area .. '(): ' .. message)
end
local function json(area, name, text)
  local ok, value, problem = pcall(cjson.decode, text)
  if not ok or problem then
    do
      local area, message = area, 'Arg "' .. name .. '" missing or not JSON: ' .. string.sub(tostring(text), 1, 200)
      error(area .. '(): ' .. message)
    end
  end
  return value
end
local function is_strict(text)
  if string.find(text, '%c') then
    return false
  end
  local bare = string.gsub(string.gsub(text, '\\.', ''), '"[^"]*"', '')
  for word in string.gmatch(bare, '[%w%.%+%-]+') do
    if word ~= 'true' and word ~= 'false' and word ~= 'null' then
      local digits = string.gsub(string.gsub(word, '[eE][%+%-]?%d+$', ''), '%.%d+$', '')
      if digits ~= '0' and digits ~= '-0' and not string.find(digits, '^%-?[1-9]%d*$') then
        return false
      end
    end
  end
  return true
end
  local value = json(area, name, text)
  if is_strict(text) then
    return text
  end
  local ok, again = pcall(cjson.encode, value)
  if not ok or not again then
    reject(area, 'Arg "' .. name .. '" missing or not JSON: ' .. string.sub(text, 1, 200))
  end
  return again
end
end

local jid = required('Log', 'jid', ARGV[2])
local message = required('Log', 'message', ARGV[3])
local data = ARGV[4] and seldom1('strict_json', 'Log', 'data', ARGV[4])
local job = call('hmget', prefix .. 'j:' .. jid, 'state', 'history')
if not job[1] then
  do
    local area, message = 'Log', 'Job ' .. jid .. ' does not exist'
    error(area .. '(): ' .. message)
  end
end
local list, text = prefix .. 'j:' .. jid .. '-history', ('[' .. string.format('%d', now) .. ',' .. (cjson.encode(message)) .. (data and ',' .. data or '') .. ']')
call('llen', list)
do
  local jid, text = jid, job[2]
  if text then
    seldom1('move_history', jid, text)
  end
end
if type(record(prefix .. 'j:' .. jid, text)) == 'table' then
  call('rpush', list, text)
end

