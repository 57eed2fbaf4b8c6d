-- wake: wakes an idle worker of each given queue, or of every known queue that has jobs for one.
--
-- KEYS[1]  the namespace prefix
-- ARGV     NOW, queue...; none: every queue with jobs that are ready, or due
--          within an hour, if no worker waits for them
-- Returns  nil
-- Errors   none
-- Cost     1 command a queue, 2 more for a worker that is woken; none: up to 6 more a queue
-- Repeat   once
-- Needs    exists get hset publish sismember srem time zadd zpopmax zpopmin zrange

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


local function wake(queue)
local function finite(text, default)
  local n = text and tonumber(text)
  if n and n - n == 0 then
    return n
  end
  return default
end
local function note_missing(name, queue)
  local key = prefix .. 'x:listed:' .. name
  if try('exists', key) == 1 then
    try('hset', key, queue, '1')
  end
end
  local waiting, list, lapses = prefix .. 'x:idle:' .. queue, nil, nil
  local woken = false
  for i = 1, 2 * 100 do
    local from = list and (prefix .. 'x:list:' .. list) or waiting
    local popped = i <= 100 and try('zpopmin', from) or try('zpopmax', from)
    local name = popped[1]
    if name and string.byte(name) == 1 then
      list, lapses = string.sub(name, 2), popped[2]
    elseif name then
      local idle = try('srem', prefix .. 'x:idle', name) == 1
      woken = idle and finite(try('publish', prefix .. ('x:wake:' .. name), queue), 0) > 0
      if woken then
        break
      end
    elseif list then
      note_missing(list, queue)
      list = nil
    else
      break
    end
  end
  if list then
    try('zadd', waiting, lapses, '\1' .. list)
  end
  return woken
end
local function is_claimed(queue, due, worker)
  local held = try('get', prefix .. 'x:due:' .. queue)
  if type(held) ~= 'string' then
    return false
  end
  local until_then, holder = string.match(held, '^(%S+) (.*)$')
  local at = tonumber(until_then)
  return at and holder ~= worker and at > now and at <= due and
    try('sismember', prefix .. 'x:idle', holder) == 1
end
local function has_jobs(queue, worker, soon)
  if call('exists', prefix .. 'q:' .. queue .. '-work') == 1 then
    return true
  end
  local soonest = now + soon
  for _, part in ipairs({'scheduled', 'recur', 'locks'}) do
    local due = tonumber(try('zrange', prefix .. 'q:' .. queue .. '-' .. part, 0, 0, 'WITHSCORES')[2])
    soonest = due and math.min(due, soonest) or soonest
  end
  return soonest < now + soon and (soonest <= now or not is_claimed(queue, soonest, worker))
end

for i = 2, #ARGV do
  wake(ARGV[i])
end
if #ARGV == 1 and call('exists', prefix .. 'x:idle') == 1 then
  for _, listed in ipairs({'queues', 'x:queues'}) do
    for _, queue in ipairs(try('zrange', prefix .. listed, 0, -1)) do
      if has_jobs(queue, '', 3600) then
        wake(queue)
      end
    end
  end
end

