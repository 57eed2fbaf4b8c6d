-- depart: deregisters a worker that stops, and wakes other workers for what it waited for.
--
-- KEYS[1]  the namespace prefix
-- ARGV     NOW, worker, claim, relays, queue...
--          claim     the claim that its last reserve returned
--          relays    '1' when it listened for puts by other scripts: another worker takes over
-- Returns  nil
-- Errors   Depart()
-- Cost     5 commands, 2 for each queue
-- Repeat   once
-- Needs    del hmget publish spop srem time zpopmax zpopmin zrange zrem

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
local function wake_any()
  for _ = 1, 100 do
    local worker = try('spop', prefix .. 'x:idle')
    if type(worker) ~= 'string' or finite(try('publish', prefix .. ('x:wake:' .. worker), ''), 0) > 0 then
      return
    end
  end
end

local worker
do
  local area, name, text = 'Depart', 'worker', ARGV[2]
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
local claim, relays = ARGV[3], ARGV[4]
local function holds_jobs(key)
  for _, jid in ipairs(try('zrange', key, 0, -1)) do
    local job = try('hmget', prefix .. 'j:' .. jid, 'worker', 'state')
    if job[1] == worker and job[2] == 'running' then
      return true
    end
  end
  return false
end
try('zrem', prefix .. 'workers', worker)
if not holds_jobs(prefix .. 'w:' .. worker .. ':jobs') then
  call('del', prefix .. 'w:' .. worker .. ':jobs')
end
call('del', prefix .. 'x:worker:' .. worker)
try('srem', prefix .. 'x:idle', worker)
for i = 5, #ARGV do
  try('zrem', prefix .. 'x:idle:' .. ARGV[i], worker)
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

