-- wake: wakes an idle worker of each of some queues, if there is one.
--
-- KEYS[1]  the namespace prefix
-- ARGV     NOW, queue...
-- Returns  nil
-- Errors   none
-- Cost     1 command a queue, 2 more for a worker that is woken

-- @include "lib/wake.lua"

for i = 2, #ARGV do
  wake(ARGV[i])
end
