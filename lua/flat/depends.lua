-- depends: adds or removes dependencies of a job, which must have some.
--
-- KEYS[1]  the namespace prefix
-- ARGV     NOW, jid, 'on' or 'off', jid... ('off', 'all' ends them all)
-- Returns  1
-- Errors   Depends() when the job's state is not depends, or a jid is none
-- Cost     2 commands, 3 for each jid
-- Repeat   once
-- Needs    del exists expire hdel hget hmget hset publish sadd smembers srem time zadd zpopmax
--          zpopmin zrem

local call = redis.call
local prefix = KEYS[1]
local try = redis.pcall

local none = {}
local seldom1



local stamp = ARGV[1]
local now
if stamp == '' then
  local time = call('time')
  stamp = time[1] .. string.format('.%06d', time[2])
  now = tonumber(stamp)
else
  now = tonumber(stamp)
  if not now or now - now ~= 0 then
    error('Arg "now" missing or not a number: ' .. tostring(stamp))
  end
  if not string.find(stamp, '^%d+%.?%d*$') then
    stamp = string.format('%.17g', now)
  end
end







seldom1 = function(which, ...)
if which == 'check_dependencies' then
local area, list, first = ...
local function reject(area, message)
  error(area .. '(): ' .. message)
end
  for i = first, #list do
    if string.find(list[i], '%-history$') or string.find(list[i], '%-dependents$') or
      string.find(list[i], '%-dependencies$') then
      reject(area, 'Arg "depends" names no job: ' .. list[i])
    end
  end
  return list
elseif which == 'needed' then
local jid, list, first, before = ...
  local others = {}
  for i = first, #list do
    local other = list[i]
    local state = before[other] or try('hget', (prefix .. 'j:' .. other), 'state')
    if type(state) == 'table' then
      return nil, 'Job ' .. other .. ' can not be read: ' .. state.err
    elseif state and state ~= 'complete' and other ~= jid then
      others[#others + 1] = other
    end
  end
  return others
elseif which == 'link' then
local jid, others, added = ...
  for i = 1, 2 * #others do
    local other = others[math.ceil(i / 2)]
    local key, member = (prefix .. 'j:' .. other) .. '-dependents', jid
    if i % 2 == 0 then
      key, member = (prefix .. 'j:' .. jid) .. '-dependencies', other
    end
    local reply = try('sadd', key, member)
    if reply == 1 then
      added[#added + 1] = {key, member}
    elseif reply ~= 0 then
      for j = 1, #added do
        call('srem', added[j][1], added[j][2])
      end
      return {key = key, member = member, err = reply.err}
    end
  end
elseif which == 'free' then
local jid, released = ...
local function finite(text, default)
  local n = tonumber(text)
  if n and n - n == 0 then
    return n
  end
  return default
end
local function wake(queue)
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
local function wake_for(queue, delay)
  return delay < 3600 and wake(queue)
end
local function note_filled(queue, known)
  if (known or call('exists', prefix .. 'x:empty') == 1)
    and try('sadd', prefix .. 'x:filled', queue) == 1 then
    call('expire', prefix .. 'x:filled', 1)
  end
end
  local key = (prefix .. 'j:' .. jid)
  local job = try('hmget', key, 'queue', 'priority', 'scheduled', 'x:undelayed')
  local queue, due = job[1], released and not job[4] and finite(job[3])
  if not queue then
    return
  end
  local state, place, score = 'waiting', (prefix .. 'q:' .. queue .. '-' .. 'work'), (finite(job[2], 0) - now / 10000000000)
  if due then
    state, place, score = 'scheduled', (prefix .. 'q:' .. queue .. '-' .. 'scheduled'), job[3]
  end
  local reply = try('zadd', place, score, jid)
  if type(reply) == 'table' then
    return reply.err
  end
  try('zrem', (prefix .. 'q:' .. queue .. '-' .. 'depends'), jid)
  call('hset', key, 'state', state)
  if due then
    call('hdel', key, 'scheduled')
  end
  if job[4] then
    call('hdel', key, 'x:undelayed')
  end
  note_filled(queue)
  wake_for(queue, due and due - now or 0)
end
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
local action
do
  local area, name, text = 'Depends', 'command', ARGV[3]
  if not text then
    local words = {
      Job = 'no jid provided', Recurring = 'no jid provided', Queue = 'no queue name provided',
    }
    do
      local area, message = area, words[area] or 'Arg "' .. name .. '" missing'
      error(area .. '(): ' .. message)
    end
  end
  action = text
end
local state = call('hget', (prefix .. 'j:' .. jid), 'state')
if state ~= 'depends' then
  do
    local area, message = 'Depends', 'Job ' .. jid .. ' not in the depends state: ' .. tostring(state)
    error(area .. '(): ' .. message)
  end
end
if action == 'on' then
  do
    local others, problem = seldom1('needed', jid, seldom1('check_dependencies', 'Depends', ARGV, 4), 4, {})
    if problem then
      do
        local area, message = 'Depends', problem
        error(area .. '(): ' .. message)
      end
    end
    local failed = seldom1('link', jid, others, {})
    if failed then
      call('sadd', failed.key, failed.member) -- the same error, for the caller
    end
  end
elseif action == 'off' and ARGV[4] == 'all' then
  do
    local ended, left = call('smembers', (prefix .. 'j:' .. jid) .. '-dependencies'), none
    if #left == 0 then
      local problem = seldom1('free', jid, false)
      if problem then
        do
          call('del', prefix .. 'x:none')
        end
        do
          local area, message = 'Depends', problem
          error(area .. '(): ' .. message)
        end
      end
    end
    for _, other in ipairs(ended) do
      do
        local jid, other = jid, other
        try('srem', (prefix .. 'j:' .. other) .. '-dependents', jid)
        try('srem', (prefix .. 'j:' .. jid) .. '-dependencies', other)
      end
    end
  end
elseif action == 'off' then
  local ended = {}
  for i = 4, #ARGV do
    ended[i - 3] = ARGV[i]
  end
  local left
  do
    local list, other, first = call('smembers', (prefix .. 'j:' .. jid) .. '-dependencies'), ended, 1
    local gone, kept = {}, {}
    for i = first, #other do
      gone[other[i]] = true
    end
    for i = 1, #list do
      if not gone[list[i]] then
        kept[#kept + 1] = list[i]
      end
    end
    left = kept
  end
  do
    local ended, left = ended, #ended > 0 and left or {jid}
    if #left == 0 then
      local problem = seldom1('free', jid, false)
      if problem then
        do
          call('del', prefix .. 'x:none')
        end
        do
          local area, message = 'Depends', problem
          error(area .. '(): ' .. message)
        end
      end
    end
    for _, other in ipairs(ended) do
      do
        local jid, other = jid, other
        try('srem', (prefix .. 'j:' .. other) .. '-dependents', jid)
        try('srem', (prefix .. 'j:' .. jid) .. '-dependencies', other)
      end
    end
  end
else
  do
    local area, message = 'Depends', 'Argument "command" must be "on" or "off"'
    error(area .. '(): ' .. message)
  end
end
return true

