-- wake: wakes an idle worker of each given queue, or of every known queue that has jobs for one.
--
-- KEYS[1]  the namespace prefix
-- ARGV     NOW, queue...; none: every queue with jobs that are ready, or due
--          within an hour, if no worker waits for them
-- Returns  nil
-- Errors   none
-- Cost     1 command a queue, 2 more for a worker that is woken; none: up to 6 more a queue
-- Repeat   once
-- Needs    exists get hset publish sismember srem time zadd zpopmax zpopmin zrange

-- @include "lib/base.lua"
-- @include "lib/wake.lua"

for i = 2, #ARGV do
  wake(ARGV[i])
end
if #ARGV == 1 and call('exists', prefix .. 'x:idle') == 1 then
  for _, listed in ipairs({'queues', 'x:queues'}) do
    for _, queue in ipairs(try('zrange', prefix .. listed, 0, -1)) do
      if has_jobs(queue, '', 3600) then
        wake(queue)
      end
    end
  end
end
