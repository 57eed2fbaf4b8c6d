-- limit.list: the limits with a definition, in no order.
--
-- Args     the cursor of the last call or ''
-- Returns  an array: the next cursor, empty at the end, and for each of about 500 limits the name,
--          the definition ("concurrency rate per"), the number of slots in use, and the number of
--          parked jobs
-- Errors   Limits()
-- Cost     1 command, 2 a limit
-- For      Go
-- Repeat   safe

local cursor = scan_cursor('Limits', required('Limits', 'cursor', ARGV[3]))
local found = call('hscan', prefix .. 'x:limits', cursor, 'COUNT', SCANNED)
local reply, stored = {next_part(found)}, found[2]
for i = 1, #stored, 2 do
  if not string.find(stored[i], ' ', 1, true) then
    local name, n = stored[i], #reply
    reply[n + 1], reply[n + 2] = name, stored[i + 1]
    reply[n + 3] = finite(try('zcard', limit_key(name, 'held')), -1)
    reply[n + 4] = finite(try('zcard', limit_key(name, 'wait')), -1)
  end
end
return reply
