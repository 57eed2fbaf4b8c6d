-- schedule.register: stores what a schedule puts, and when, in place of what was registered before.
--
-- KEYS[1]  the namespace prefix
-- ARGV     NOW, id, digest, spec, on_missed, queue, klass, jid, data, pairs
--          jid     that of every job, or ''
--          data    that of the jobs; '' with pairs '' if the schedule is too large to be stored
--          pairs   a JSON array: the options of the jobs, as put takes them
-- Returns  nil
-- Errors   Schedule.register()
-- Cost     6 commands, 1 for each worker that follows it no more
-- Repeat   safe
-- Needs    hget hgetall hset time zadd

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


local function read_follower(text)
  if type(text) ~= 'string' then
    return nil
  end
  local since, seen, digest = string.match(text, '^(%S+) (%S+) (%S+)$')
  return finite(since) and since, finite(seen), digest
end

local id = required('Schedule.register', 'id', ARGV[2] ~= '' and ARGV[2])
local digest = required('Schedule.register', 'digest', ARGV[3] ~= '' and ARGV[3])
local fields = {'spec', 'on_missed', 'queue', 'klass', 'only', 'data', 'pairs'}
local values = {'digest', digest}
for i = 1, #fields do
  values[#values + 1] = fields[i]
  values[#values + 1] = required('Schedule.register', fields[i], ARGV[i + 3])
end
call('zadd', prefix .. 'x:schedule-ids', 0, id)
local since = try('hget', prefix .. 'x:schedule:' .. id, 'since')
try('hset', prefix .. 'x:schedule:' .. id, 'since', type(since) == 'string' and since or stamp, unpack(values))
do
  local id = id
  local followers, gone = try('hgetall', prefix .. 'x:follow:' .. id), {}
  for i = 1, #followers, 2 do
    local _, seen = read_follower(followers[i + 1])
    if not seen or seen <= now - 180 then
      gone[#gone + 1] = followers[i]
    end
  end
  do
    local run, operation, key, list = try, 'hdel', prefix .. 'x:follow:' .. id, gone
    for from = 1, #list, 1000 do
      run(operation, key, unpack(list, from, math.min(from + 999, #list)))
    end
  end
end

