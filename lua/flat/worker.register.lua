-- worker.register: tells that a worker runs, and what it is, for 150 seconds.
--
-- KEYS[1]  the namespace prefix
-- ARGV     NOW, worker, age, json
--          age   how many seconds ago the worker was started
--          json  an object that describes it, for workers with 'registered'
-- Returns  nil
-- Errors   Worker.register()
-- Cost     3 commands
-- Repeat   safe
-- Needs    set time zadd

local call = redis.call
local prefix = KEYS[1]
local try = redis.pcall

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


local worker
repeat
  local area, name, text = 'Worker.register', 'worker', ARGV[2]
  do
    local area, name, text = area, name, text ~= '' and text
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
    break
  end
  worker = nil
until true
local started = now - number('Worker.register', 'age', ARGV[3])
do
  local area, name, text = 'Worker.register', 'json', ARGV[4]
  local ok, value, problem = pcall(cjson.decode, text)
  if not ok or problem then
    do
      local area, message = area, 'Arg "' .. name .. '" missing or not JSON: ' .. string.sub(tostring(text), 1, 200)
      error(area .. '(): ' .. message)
    end
  end
end
call('set', prefix .. 'x:worker:' .. worker, stamp .. '|' .. string.format('%.17g', started) .. '|' .. ARGV[4], 'EX', 150)
try('zadd', prefix .. 'workers', stamp, worker)

