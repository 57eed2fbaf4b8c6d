-- wake: wakes an idle worker of each of some queues, or one of any queue, if there is one.
--
-- KEYS[1]  the namespace prefix
-- ARGV     NOW, queue...; none: a worker of any queue
-- Returns  nil
-- Errors   none
-- Cost     1 command a queue, 2 more for a worker that is woken

-- @include "lib/wake.lua"

for i = 2, #ARGV do
  wake(ARGV[i])
end
if #ARGV == 1 then
  wake_any()
end
