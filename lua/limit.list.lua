-- limit.list: the names of the limits that have a definition, in their order.
--
-- KEYS[1]  the namespace prefix
-- ARGV     NOW, offset, count
-- Returns  an array: how many there are, and for count of them from offset on, the name and the
--          definition: concurrency, rate and per, separated by spaces
-- Errors   Limits()
-- Cost     1 command; all definitions are read
-- Repeat   safe
-- Needs    hgetall

-- @include "lib/base.lua"
-- @include "lib/check.lua"

local offset = whole('Limits', 'offset', ARGV[2] or 0)
local count = whole('Limits', 'count', ARGV[3] or 25)
local stored, all, found = call('hgetall', prefix .. 'x:limits'), {}, {}
for i = 1, #stored, 2 do
  if not string.find(stored[i], ' ', 1, true) then
    found[stored[i]] = stored[i + 1]
    all[#all + 1] = stored[i]
  end
end
table.sort(all)
local reply = {#all}
for i = offset + 1, math.min(offset + count, #all) do
  reply[#reply + 1] = all[i]
  reply[#reply + 1] = found[all[i]]
end
return reply
