-- release: requeues a worker's job without using up a retry.
--
-- KEYS[1]  the namespace prefix
-- ARGV     NOW, jid, queue, worker, delay, data [, since]
--          since: only a job that runs since this time, unless it is ''
-- Returns  the jid
-- Errors   Release() when the job is not this worker's, not running, or runs in another queue
-- Cost     7 commands
-- Repeat   once
-- Needs    del hdel hexists hmget hset publish rpush srem time zadd zpopmax zpopmin zrem

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

local call = redis.call
local prefix = KEYS[1]
local try = redis.pcall
local function write_first(...)
  local reply = try(...)
  if type(reply) == 'table' and reply.err then
    do
      call('del', prefix .. 'x:none')
    end
    return try(...)
  end
  return reply
end
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







local seldom1













seldom1 = function(which, ...)
if which == 'wake' then
local queue = ...
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
elseif which == 'wake_for' then
local queue, delay = ...
  return delay < 3600 and seldom1('wake', queue)
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
elseif which == 'result_field' then
local state, time, result = ...
  return state .. '|' .. (time or '') .. '|' .. result
end
end



local function not_owned(area, jid, owner, state, worker, time, since)
  if not state then
    return 'Job ' .. jid .. ' does not exist'
  elseif state ~= 'running' then
    local words = {Fail = ' not', Heartbeat = ' not'}
    return 'Job ' .. jid .. (words[area] or ' is not') .. ' currently running: ' .. state
  elseif owner ~= worker or since and since ~= time then
    local words = {
      Fail = ' running with', Heartbeat = ' given out to', Retry = ' has been given to',
    }
    local taken = (words[area] or ' has been handed out to') .. ' another worker: '
    local again = owner == worker and ', at ' .. tostring(time) or ''
    return 'Job ' .. jid .. taken .. tostring(owner) .. again
  end
end

local function read_owned(area, item, worker)
  local key = prefix .. 'j:' .. item.jid
  local job = try('hmget', key, 'queue', 'state', 'worker', 'priority', 'remaining', 'history',
    'grace', 'time', 'x:o')
  local problem = job.err or not_owned(area, item.jid, job[3], job[2], worker, job[8], item.since)
  if problem then
    return problem
  elseif not job[1] then
    return 'Job ' .. item.jid .. ' is in no queue'
  elseif item.here and item.queue ~= job[1] then
    return 'Job ' .. item.jid .. ' running in another queue: ' .. job[1]
  end
  item.key, item.current, item.priority = key, job[1], job[4]
  item.remaining, item.history, item.grace = math.floor(finite(job[5], 0)), job[6], job[7]
  item.stored = job[9]
  if item.result then
    item.ended = seldom1('result_field', 'failed', job[8], item.result)
  end
end
local function enqueue(item, queue, score)
  local state, part = 'waiting', 'work'
  if item.delay > 0 then
    state, part, score = 'scheduled', 'scheduled', string.format('%.17g', (now + item.delay))
  end
  local reply = write_first('zadd', prefix .. 'q:' .. queue .. '-' .. part, score, item.jid)
  if type(reply) == 'table' then
    return nil, reply.err
  end
  return state
end
local function release(worker, item)
  local problem, state = read_owned('Release', item, worker)
  if not problem then
    local score = finite(item.priority, 0) - (item.place or 0) / 1000000
    state, problem = enqueue(item, item.current, score)
  end
  if problem then
    return problem
  end
  do
    local item, worker, fields = item, worker, {'state', state, 'worker', '', 'expires', '0'}
    try('zrem', prefix .. 'q:' .. item.current .. '-locks', item.jid)
    try('zrem', prefix .. 'w:' .. worker .. ':jobs', item.jid)
    do
      local jid, text = item.jid, item.history
      if text then
        seldom1('move_history', jid, text)
      end
    end
    if item.grace then
      call('hdel', item.key, 'grace')
    end
    if item.data ~= '' then
      fields[#fields + 1] = 'data'
      fields[#fields + 1] = item.data
    end
    call('hset', item.key, unpack(fields))
    do
      local queue = item.current
      if try('hexists', prefix .. 'config', queue .. '-max-concurrency') == 1 then
        seldom1('wake', queue)
      end
    end
  end
  seldom1('wake_for', item.current, item.delay)
end

local jid
do
  local area, name, text = 'Job', 'jid', ARGV[2]
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
local queue
do
  local area, name, text = 'Release', 'queue', ARGV[3]
  if not text then
    local words = {
      Job = 'no jid provided', Recurring = 'no jid provided', Queue = 'no queue name provided',
    }
    do
      local area, message = area, words[area] or 'Arg "' .. name .. '" missing'
      error(area .. '(): ' .. message)
    end
  end
  queue = text
end
local worker
do
  local area, name, text = 'Release', 'worker', ARGV[4]
  if not text then
    local words = {
      Job = 'no jid provided', Recurring = 'no jid provided', Queue = 'no queue name provided',
    }
    do
      local area, message = area, words[area] or 'Arg "' .. name .. '" missing'
      error(area .. '(): ' .. message)
    end
  end
  worker = text
end
local item = {
  jid = jid,
  queue = queue,
  delay = number('Release', 'delay', ARGV[5]),
  data = ARGV[6],
  since = ARGV[7] ~= '' and ARGV[7] or nil,
  here = true,
}
do
  local area, name, text = 'Release', 'data', item.data
  local ok, value, problem = pcall(cjson.decode, text)
  if not ok or problem then
    do
      local area, message = area, 'Arg "' .. name .. '" missing or not JSON: ' .. string.sub(tostring(text), 1, 200)
      error(area .. '(): ' .. message)
    end
  end
end
do
  if redis.acl_check_cmd and not redis.acl_check_cmd('publish', prefix .. 'log') then
    error({err = 'NOPERM this user may not publish to the channel ' .. prefix .. 'log'})
  end
end
local problem = release(worker, item)
if problem then
  do
    local area, message = 'Release', problem
    error(area .. '(): ' .. message)
  end
end
return jid

