-- workers: the workers seen lately, with how many jobs each holds, or the jobs of one worker.
--
-- KEYS[1]  the namespace prefix
-- ARGV     NOW, [worker [, 'held']], or '', first, last [, 'registered']: the range of the list
--          that is wanted, negative ones counted from its end, '' for all
-- Returns  JSON of all, last seen first: {name, jobs, stalled} as counts, and with 'registered' the
--          text registered of those that have registered: SEEN|STARTED|JSON;
--          of one: {jobs, stalled} as jids. A job that was timed out stays among them, even if
--          another worker has it; with 'held' it does not
-- Errors   Workers()
-- Cost     2 commands, 2 for each worker, 3 with 'registered'; removes at most 1000 that were not
--          seen for max-worker-age
-- Repeat   safe
-- Needs    del get hget hmget time zcount zrangebyscore zrem zrevrange zrevrangebyscore

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


local function integer(area, name, text)
  local value
  do
    local area, name, text = area, name, text
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
    value = n
  end
  if value % 1 ~= 0 or math.abs(value) > 2147483647 then
    do
      local area, message = area, 'Arg "' .. name .. '" is not a whole number: ' .. text
      error(area .. '(): ' .. message)
    end
  end
  return value
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



local function array(list)
  if #list == 0 then
    return '[]'
  end
  return cjson.encode(list)
end



local far = string.format('%.17g', (now + 8640000))
local function forget(old)
local function may_write(key)
  return not redis.acl_check_cmd or redis.acl_check_cmd('del', key)
end
local function each_slice(run, operation, key, list)
  for from = 1, #list, 1000 do
    run(operation, key, unpack(list, from, math.min(from + 999, #list)))
  end
end
  if may_write(prefix .. 'workers') then
    for _, worker in ipairs(old) do
      call('del', prefix .. 'w:' .. worker .. ':jobs')
    end
    each_slice(call, 'zrem', prefix .. 'workers', old)
  end
end
local function held(worker, jids)
  if ARGV[3] ~= 'held' then
    return jids
  end
  local kept = {}
  for _, jid in ipairs(jids) do
    local job = try('hmget', prefix .. 'j:' .. jid, 'worker', 'state')
    if job[1] == worker and job[2] == 'running' then
      kept[#kept + 1] = jid
    end
  end
  return kept
end
local function registered(worker)
  local text = try('get', prefix .. 'x:worker:' .. worker)
  local seen = type(text) == 'string' and finite(string.match(text, '^[^|]*'))
  return seen and seen > now - 150 and text or nil
end
local worker = ARGV[2]
if worker == '' then
  worker = nil
end
local first, last = 0, -1
if not worker then
  first = (ARGV[3] and ARGV[3] ~= '') and integer('Workers', 'first', ARGV[3]) or first
  last = (ARGV[4] and ARGV[4] ~= '') and integer('Workers', 'last', ARGV[4]) or last
end
do
  local age = finite(call('hget', prefix .. 'config', 'max-worker-age'), 86400)
  local old = call('zrangebyscore', prefix .. 'workers', 0, string.format('%.17g', (now - age)), 'LIMIT', 0, 1000)
  if #old > 0 then
    forget(old)
  end
end
if worker then
  local key = prefix .. 'w:' .. worker .. ':jobs'
  return '{"jobs":' .. array(held(worker, call('zrevrangebyscore', key, far, stamp))) ..
    ',"stalled":' .. array(held(worker, call('zrevrangebyscore', key, stamp, 0))) .. '}'
end
local all = call('zrevrange', prefix .. 'workers', first, last)
for i = 1, #all do
  local key = prefix .. 'w:' .. all[i] .. ':jobs'
  all[i] = cjson.encode({
    name = all[i],
    jobs = call('zcount', key, stamp, far),
    stalled = call('zcount', key, 0, stamp),
    registered = ARGV[5] == 'registered' and registered(all[i]) or nil,
  })
end
do
  local texts = all
  if #texts == 0 then
    return '[]'
  elseif #texts == 1 then
    return '[' .. texts[1] .. ']'
  elseif #texts == 2 then
    return '[' .. texts[1] .. ',' .. texts[2] .. ']'
  end
  return '[' .. table.concat(texts, ',') .. ']'
end

