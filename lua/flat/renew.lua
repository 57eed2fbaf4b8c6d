-- renew: renews a worker's locks on many jobs.
--
-- KEYS[1]  the namespace prefix
-- ARGV     NOW, worker, jid...
-- Returns  an array with one text for each job: for how many seconds it is locked from now, or
--          '!' and why it could not be renewed
-- Errors   Renew()
-- Cost     4 commands, 1 for each queue and 2 for each job
-- Repeat   once
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

local function kept_lock_time(seconds)
  return seconds > 0 and seconds or 60
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
local function heartbeat_of(queue)
  local config = try('hmget', prefix .. 'config', queue .. '-heartbeat', 'heartbeat')
  return (finite(config[1]) or finite(config[2], 60))
end

local worker
do
  local area, name, text = 'Renew', 'worker', ARGV[2]
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
local heartbeats = {}
local outcomes, by_queue, all = {}, {}, {}
local function read_lock(jid, i)
  local job = try('hmget', prefix .. 'j:' .. jid, 'queue', 'state', 'worker', 'grace', 'x:o')
  local queue = job[1]
  local problem = job.err or not_owned('Renew', jid, job[3], job[2], worker)
  if problem or not queue then
    return problem or 'Job ' .. jid .. ' is in no queue'
  end
  local seconds = job[5] and own_lock_time(job[5]) or heartbeats[queue]
  if not seconds then
    seconds = kept_lock_time(heartbeat_of(queue))
    heartbeats[queue] = seconds
  end
  local its = by_queue[queue] or {jobs = {}, locks = {}}
  by_queue[queue] = its
  its.jobs[#its.jobs + 1] = {at = i, jid = jid, grace = job[4], lasts = seconds}
  its.locks[#its.locks + 1] = string.format('%.17g', (now + seconds))
  its.locks[#its.locks + 1] = jid
end
for i = 3, #ARGV do
  local problem = read_lock(ARGV[i], i - 2)
  if problem then
    outcomes[i - 2] = '!' .. problem
  end
end
for queue, its in pairs(by_queue) do
  do
    local queue, its = queue, its
    local reply = write_first('zadd', prefix .. 'q:' .. queue .. '-locks', unpack(its.locks))
    for i, job in ipairs(its.jobs) do
      if type(reply) == 'table' then
        outcomes[job.at] = '!' .. reply.err
      else
        local expires = its.locks[2 * i - 1]
        call('hset', prefix .. 'j:' .. job.jid, 'expires', expires)
        if job.grace then
          call('hdel', prefix .. 'j:' .. job.jid, 'grace')
        end
        all[#all + 1] = expires
        all[#all + 1] = job.jid
        outcomes[job.at] = string.format('%.17g', job.lasts)
      end
    end
  end
end
do
  local run, operation, key, list = try, 'zadd', prefix .. 'w:' .. worker .. ':jobs', all
  for from = 1, #list, 1000 do
    run(operation, key, unpack(list, from, math.min(from + 999, #list)))
  end
end
try('zadd', prefix .. 'workers', stamp, worker)
return outcomes

