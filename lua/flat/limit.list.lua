-- limit.list: the limits that have a definition, in no order.
--
-- KEYS[1]  the namespace prefix
-- ARGV     NOW, the cursor of the last call or ''
-- Returns  an array: a cursor, which is empty at the end, and for each of about 500 limits the name
--          and the definition: concurrency, rate and per, separated by spaces
-- Errors   Limits()
-- Cost     1 command
-- Repeat   safe
-- Needs    hscan

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

local seldom1

seldom1 = function(which, ...)
if which == 'scan_cursor' then
local area, cursor = ...
local function reject(area, message)
  error(area .. '(): ' .. message)
end
  if cursor == '' then
    return '0'
  elseif not string.find(cursor, '^%d+$') or tonumber(cursor) >= 2 ^ 64 then
    reject(area, 'Arg "cursor" is no cursor: ' .. string.sub(cursor, 1, 200))
  end
  return cursor
elseif which == 'next_part' then
local reply = ...
  return reply[1] == '0' and '' or reply[1]
end
end

local cursor = seldom1('scan_cursor', 'Limits', required('Limits', 'cursor', ARGV[2]))
local found = call('hscan', prefix .. 'x:limits', cursor, 'COUNT', 500)
local reply, stored = {seldom1('next_part', found)}, found[2]
for i = 1, #stored, 2 do
  if not string.find(stored[i], ' ', 1, true) then
    reply[#reply + 1] = stored[i]
    reply[#reply + 1] = stored[i + 1]
  end
end
return reply

