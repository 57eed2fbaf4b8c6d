-- queue.history: the histories of all queues together, and of some of them, in the format of
-- lib/past.lua.
--
-- Args     from [, queue...]: at most 100 queues; from is a time, or a negative number of seconds
--          before now, and selects the finest ring that reaches back so far
-- Returns  an array: the time; the length of a record, 60, 300 or 3600 seconds; the ring of all
--          queues; the ring of each queue
-- Errors   Queue.history()
-- Cost     1 command, 1 a queue
-- For      Go
-- Repeat   safe

local from = number('Queue.history', 'from', ARGV[3])
if #ARGV > 103 then
  reject('Queue.history', 'More than 100 queues')
end
from = from < 0 and now + from or from

local step = 3600
for _, finer in ipairs({300, 60}) do
  if math.floor(now / finer) - math.floor(from / finer) < ring_of(finer) then
    step = finer
  end
end
local size, first = ring_of(step)
local found = {stamp, step}
for i = 3, #ARGV do
  local key = i == 3 and prefix .. 'x:history' or past_key(named('Queue.history', 'queue', ARGV[i]))
  local text = try('getrange', key, first, first + PAST_RECORD * size - 1)
  found[i] = type(text) == 'string' and text or ''
end
return found
