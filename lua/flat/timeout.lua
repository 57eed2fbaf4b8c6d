-- timeout: expires the locks of running jobs at once. They are popped before all others.
--
-- KEYS[1]  the namespace prefix
-- ARGV     NOW, jid...
-- Returns  nil
-- Errors   Timeout() when one of them does not run; none is touched then
-- Cost     7 commands a job
-- Repeat   once
-- Needs    hdel hget hmget hset lindex lpush ltrim publish rpush srem time zadd zcard zpopmax
--          zpopmin zrem

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





local function entry(at, what, details)
  return '[' .. string.format('%d', at) .. ',' .. what .. (details and ',' .. details or '') .. ']'
end
local seldom1



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
elseif which == 'wake' then
local queue = ...
local function finite(text, default)
  local n = text and tonumber(text)
  if n and n - n == 0 then
    return n
  end
  return default
end
  local waiting = prefix .. 'x:idle:' .. queue
  for i = 1, 2 * 100 do
    local worker = (i <= 100 and try('zpopmin', waiting) or try('zpopmax', waiting))[1]
    if not worker then
      return
    end
    local idle = try('srem', prefix .. 'x:idle', worker) == 1
    if idle and finite(try('publish', prefix .. ('x:wake:' .. worker), queue), 0) > 0 then
      return true
    end
  end
end
end

local running, jids = {}, {}
for i = 2, #ARGV do
  local jid = ARGV[i]
  local job = call('hmget', prefix .. 'j:' .. jid, 'queue', 'state', 'worker', 'history')
  if not job[2] then
    do
      local area, message = 'Timeout', 'Job ' .. jid .. ' not running: it does not exist'
      error(area .. '(): ' .. message)
    end
  elseif job[2] ~= 'running' then
    do
      local area, message = 'Timeout', 'Job ' .. jid .. ' not running'
      error(area .. '(): ' .. message)
    end
  end
  if not job[1] then
    do
      local area, message = 'Timeout', 'Job ' .. jid .. ' is in no queue'
      error(area .. '(): ' .. message)
    end
  end
  call('zcard', prefix .. 'q:' .. job[1] .. '-work')
  if not running[jid] then
    running[jid] = job
    jids[#jids + 1] = jid
  end
end
do
  if redis.acl_check_cmd and not redis.acl_check_cmd('publish', prefix .. 'log') then
    error({err = 'NOPERM this user may not publish to the channel ' .. prefix .. 'log'})
  end
end
for _, jid in ipairs(jids) do
  local job = running[jid]
  local queue, worker = job[1], job[3] or ''
  try('zrem', prefix .. 'q:' .. queue .. '-locks', jid)
  call('zadd', prefix .. 'q:' .. queue .. '-work', '+inf', jid)
  do
    local jid, text = jid, job[4]
    if text then
      seldom1('move_history', jid, text)
    end
  end
  do
    local key, text, cap = prefix .. 'j:' .. jid, entry(now, '"timed-out"')
    local length = try('rpush', key .. '-history', text)
    if length ~= 1 and length ~= 2 and type(length) == 'number' and (not cap or length > cap) then
      seldom1('trim_history', key .. '-history', length, cap)
    end
  end
  call('hset', prefix .. 'j:' .. jid, 'state', 'stalled', 'expires', '0')
  do
    local jid, worker = jid, worker
    local message = cjson.encode({jid = jid, event = 'lock_lost', worker = worker})
    try('publish', prefix .. ('w:' .. worker), message)
    try('publish', prefix .. 'log', message)
  end
  seldom1('wake', queue)
end

