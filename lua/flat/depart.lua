-- depart: deregisters a worker that stops, and wakes other workers for what it waited for.
--
-- KEYS[1]  the namespace prefix
-- ARGV     NOW, worker, claim, relays, queue...
--          claim     the claim that its last reserve returned
--          relays    '1' when it listened for puts by other scripts: another worker takes over
-- Returns  nil
-- Errors   Depart()
-- Cost     5 commands, 2 for each queue; with more than 16 queues 3 more, or 2 and 1 less for each
--          while others have the same
-- Repeat   once
-- Needs    del exists hmget hset publish spop srem time zadd zpopmax zpopmin zrange zrem

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


local unheard = 0
local function wake(queue)
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
      unheard = unheard + 1
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
local function wake_any()
  for _ = 1, 100 do
    local worker = try('spop', prefix .. 'x:idle')
    if type(worker) ~= 'string' or finite(try('publish', prefix .. ('x:wake:' .. worker), ''), 0) > 0 then
      return
    end
  end
end

local worker = required('Depart', 'worker', ARGV[2])
local claim, relays = required('Depart', 'claim', ARGV[3]), ARGV[4]
local function holds_jobs(key)
  for _, jid in ipairs(try('zrange', key, 0, -1)) do
    local job = try('hmget', prefix .. 'j:' .. jid, 'worker', 'state')
    if job[1] == worker and job[2] == 'running' then
      return true
    end
  end
  return false
end
local function leave_list(list)
  try('zrem', prefix .. 'x:list:' .. list, worker)
  if call('exists', prefix .. 'x:list:' .. list) == 1 then
    return nil
  end
  call('del', prefix .. 'x:listed:' .. list)
  return '\1' .. list
end
try('zrem', prefix .. 'workers', worker)
if not holds_jobs(prefix .. 'w:' .. worker .. ':jobs') then
  call('del', prefix .. 'w:' .. worker .. ':jobs')
end
call('del', prefix .. 'x:worker:' .. worker)
try('srem', prefix .. 'x:idle', worker)
local waits = worker
if #ARGV - 4 > 16 then
  waits = leave_list(redis.sha1hex((table.concat(ARGV, '\0', 5))))
end
for i = 5, waits and #ARGV or 0 do
  try('zrem', prefix .. 'x:idle:' .. ARGV[i], waits)
end
if claim ~= '' then
  call('del', prefix .. 'x:due:' .. claim)
end
for i = 5, #ARGV do
  wake(ARGV[i])
end
if relays == '1' then
  wake_any()
end

