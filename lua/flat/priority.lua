-- priority: changes a job's priority, and its place when it waits.
--
-- KEYS[1]  the namespace prefix
-- ARGV     NOW, jid, n
-- Returns  n
-- Errors   Priority() when there is no such job
-- Cost     4 commands
-- Repeat   safe
-- Needs    hdel hmget hset zadd

local call = redis.call
local prefix = KEYS[1]



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
local priority
do
  local area, name, text = 'Priority', 'priority', ARGV[3]
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
  priority = n
end
local job = call('hmget', prefix .. 'j:' .. jid, 'queue', 'state')
local queue, state = job[1], job[2]
if not queue then
  do
    local area, message = 'Priority', 'Job ' .. jid .. ' does not exist'
    error(area .. '(): ' .. message)
  end
end
repeat
  local run, jid, queue, state, priority = call, jid, queue, state, priority
  if queue ~= '' then
    local moved = run('zadd', prefix .. 'q:' .. queue .. '-work', 'XX', priority, jid)
    if type(moved) == 'table' then
      break
    end
  end
  call('hset', prefix .. 'j:' .. jid, 'priority', priority)
  if state == 'stalled' then
    call('hdel', prefix .. 'j:' .. jid, 'grace')
  end
until true
return priority

