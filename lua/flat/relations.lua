-- relations: some of the jobs that wait for a job, or that it waits for, in no particular order.
--
-- KEYS[1]  the namespace prefix
-- ARGV     NOW, jid, 'dependents' or 'dependencies', cursor: 0 at first, then that of the last reply
-- Returns  an array: the cursor, which is 0 at the end, and an array of some thousand jids, perhaps
--          of one that was there before. Those that come or go meanwhile may be missing
-- Errors   Job(), Relations()
-- Cost     1 command
-- Repeat   safe
-- Needs    sscan

local call = redis.call
local prefix = KEYS[1]

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

local jid, which = required('Job', 'jid', ARGV[2]), ARGV[3]
if which ~= 'dependents' and which ~= 'dependencies' then
  do
    local area, message = 'Relations', 'Unknown relation "' .. tostring(which) .. '"'
    error(area .. '(): ' .. message)
  end
end
local cursor = required('Relations', 'cursor', ARGV[4])
if not string.find(cursor, '^%d+$') then
  do
    local area, message = 'Relations', 'Arg "cursor" is no cursor: ' .. cursor
    error(area .. '(): ' .. message)
  end
end
return call('sscan', prefix .. 'j:' .. jid .. '-' .. which, cursor, 'COUNT', 4000)

