-- heartbeat: renews a worker's lock on its job for the queue's heartbeat, or the job's own lock
-- time.
--
-- KEYS[1]  the namespace prefix
-- ARGV     NOW, jid, worker [, data [, since]]
--          since: only a job that runs since this time, unless it is ''
-- Returns  when the lock now ends: an integer (the job keeps the fraction)
-- Errors   Heartbeat() when the job is not this worker's or not running
-- Cost     6 commands; 5 for a job with a lock time of its own
-- Repeat   safe
-- Needs    del hdel hmget hset time zadd

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


local function own_lock_time(text)
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
  local _, values = split_options(text)
  local seconds = finite(has_option(text, 'l') and values.l, 0)
  return seconds > 0 and seconds or nil
end


local function heartbeat_of(queue)
  local config = try('hmget', prefix .. 'config', queue .. '-heartbeat', 'heartbeat')
  return (finite(config[1]) or finite(config[2], 60))
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
local worker
do
  local area, name, text = 'Heartbeat', 'worker', ARGV[3]
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
local data = ARGV[4]
local since = ARGV[5] ~= '' and ARGV[5]
if data then
  do
    local area, name, text = 'Heartbeat', 'data', data
    local ok, value, problem = pcall(cjson.decode, text)
    if not ok or problem then
      do
        local area, message = area, 'Arg "' .. name .. '" missing or not JSON: ' .. string.sub(tostring(text), 1, 200)
        error(area .. '(): ' .. message)
      end
    end
  end
end
local key = prefix .. 'j:' .. jid
local job = call('hmget', key, 'queue', 'state', 'worker', 'grace', 'x:o', 'time')
local queue = job[1]
do
  local area, jid, queue, owner, state, worker, time, since = 'Heartbeat', jid, queue, job[3], job[2], worker, job[6], since
  local problem
  repeat
    local area, jid, owner, state, worker, time, since = area, jid, owner, state, worker, time, since
    if not state then
      problem = 'Job ' .. jid .. ' does not exist'
      break
    elseif state ~= 'running' then
      local words = {Fail = ' not', Heartbeat = ' not'}
      problem = 'Job ' .. jid .. (words[area] or ' is not') .. ' currently running: ' .. state
      break
    elseif owner ~= worker or since and since ~= time then
      local words = {
        Fail = ' running with', Heartbeat = ' given out to', Retry = ' has been given to',
      }
      local taken = (words[area] or ' has been handed out to') .. ' another worker: '
      local again = owner == worker and ', at ' .. tostring(time) or ''
      problem = 'Job ' .. jid .. taken .. tostring(owner) .. again
      break
    end
    problem = nil
  until true
  if problem then
    do
      local area, message = area, problem
      error(area .. '(): ' .. message)
    end
  elseif not queue then
    do
      local area, message = area, 'Job ' .. jid .. ' is in no queue'
      error(area .. '(): ' .. message)
    end
  end
end
local seconds = (job[5] and own_lock_time(job[5]) or heartbeat_of(queue))
local text
repeat
  local seconds = seconds
  if seconds % 1 == 0 and #stamp == 17 and string.sub(stamp, 11, 11) == '.' then
    local digits, decimals = string.format('%d', now + seconds), string.sub(stamp, 11)
    if #digits == 10 and decimals ~= '.000000' then
      text = digits .. decimals
      break
    end
  end
  text = string.format('%.17g', (now + seconds))
until true
local locks = prefix .. 'q:' .. queue .. '-locks'
if type(write_first('zadd', locks, text, jid)) == 'table' then
  call('zadd', locks, text, jid)
end
if data then
  call('hset', key, 'expires', text, 'worker', worker, 'data', data)
else
  call('hset', key, 'expires', text, 'worker', worker)
end
if job[4] then
  call('hdel', key, 'grace')
end
try('zadd', prefix .. 'workers', stamp, worker)
try('zadd', prefix .. 'w:' .. worker .. ':jobs', text, jid)
return now + seconds

