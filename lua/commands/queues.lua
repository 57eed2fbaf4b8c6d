-- queues: the number of jobs of a queue, by state. Moves due jobs into work.
--
-- Args     [queue], or '', 'from', the cursor of the last call or ''
-- Returns  JSON of one queue, or of all in the order in which they were first seen:
--          {name, waiting, stalled, running, scheduled, depends, recurring, paused};
--          from: JSON {cursor, queues}: at most 200 queues, including queues known only by an
--          unfail, and the next cursor, empty at the end
-- Errors   Queues()
-- Cost     9 commands a queue, 3 for each due job, of which it moves at most 1000
-- For      classic
-- Repeat   safe

-- The maximum number of due jobs that a call moves. It counts the others as if they were moved.
local movable = 1000

-- The number of queues that a call reads from a cursor on.
local MAX_QUEUES = 200

local function size(queue, part)
  return finite(try('zcard', queue_key(queue, part)), 0)
end

local function count_until_now(queue, part)
  return finite(try('zcount', queue_key(queue, part), 0, stamp), 0)
end

local function counts(queue)
  local due = count_until_now(queue, 'scheduled')
  if due > 0 then
    pcall(bring_due, queue, false, true, math.min(due, movable)) -- fails in a damaged queue
    local left = count_until_now(queue, 'scheduled')
    due, movable = left, movable - (due - left)
  end
  local stalled = count_until_now(queue, 'locks')
  return cjson.encode({
    name = queue, waiting = size(queue, 'work') + due, stalled = stalled,
    running = size(queue, 'locks') - stalled, scheduled = size(queue, 'scheduled') - due,
    depends = size(queue, 'depends'), recurring = size(queue, 'recur'),
    paused = try('sismember', prefix .. 'paused_queues', queue) == 1,
  })
end

if ARGV[4] == 'from' then
  local cursor, found = required('Queues', 'cursor', ARGV[5]), {}
  call('zcard', prefix .. 'queues') -- a list of another type is an error, and not empty
  cursor = each_queue('Queues', cursor, MAX_QUEUES, function(queue)
    found[#found + 1] = counts(queue)
  end)
  return '{"cursor":' .. cjson.encode(cursor) .. ',"queues":' .. joined(found) .. '}'
elseif ARGV[3] then
  return counts(ARGV[3])
end
local all = call('zrange', prefix .. 'queues', 0, -1)
for i = 1, #all do
  all[i] = counts(all[i])
end
return joined(all)
