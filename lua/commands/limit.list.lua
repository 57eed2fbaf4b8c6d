-- limit.list: the limits that have a definition, in no order.
--
-- KEYS[1]  the namespace prefix
-- ARGV     COMMAND, NOW, the cursor of the last call or ''
-- Returns  an array: a cursor, which is empty at the end, and for each of about 500 limits the name
--          and the definition: concurrency, rate and per, separated by spaces
-- Errors   Limits()
-- Cost     1 command
-- For      Go
-- Repeat   safe
-- Needs    hscan time

local cursor = scan_cursor('Limits', required('Limits', 'cursor', ARGV[3]))
local found = call('hscan', prefix .. 'x:limits', cursor, 'COUNT', SCANNED)
local reply, stored = {next_part(found)}, found[2]
for i = 1, #stored, 2 do
  if not string.find(stored[i], ' ', 1, true) then
    reply[#reply + 1] = stored[i]
    reply[#reply + 1] = stored[i + 1]
  end
end
return reply
