-- put.many: puts many jobs into a queue.
--
-- KEYS[1]  the namespace prefix
-- ARGV     NOW, worker, queue, then for each job: jid, klass, data, delay, n, and n arguments:
--          the pairs of put
-- Returns  nil
-- Errors   Queue(), Put(); nothing is written then
-- Cost     of new jobs: 3 commands, and 4 for each, 3 more for each tag or dependency

-- @include "lib/check.lua"
-- @include "lib/put.lua"

local queue = named('Queue', 'queue', ARGV[3])
local items, seen = {}, {}
local at = 4
while at <= #ARGV do
  local first = at + 5
  local last = first + whole('Put', 'n', ARGV[at + 4]) - 1
  local item = read_put(at, first, last)
  if seen[item.jid] then
    reject('Put', 'Job ' .. item.jid .. ' is named twice')
  end
  seen[item.jid] = true
  items[#items + 1] = item
  at = last + 1
end
if #items > 0 then
  put(ARGV[2], queue, items)
end
