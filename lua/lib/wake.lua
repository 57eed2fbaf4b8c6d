-- Waking idle workers: one for each job that can be popped, whoever put it.
--
-- A worker that found less than it asked for is in the set x:idle, and in x:idle:<queue> for
-- each of its queues, longest idle first. It listens to x:wake:<worker>. Whatever makes a job
-- ready wakes one of them; one that is busy again, or gone, has left x:idle or hears nothing,
-- and the next one is taken.

-- @include "lib/base.lua"
-- @include "lib/events.lua"

local function wake(queue) -- cold
  local waiting = prefix .. 'x:idle:' .. queue
  while true do
    local worker = call('zpopmin', waiting)[1]
    if not worker then
      return
    end
    if call('srem', prefix .. 'x:idle', worker) == 1 and publish('x:wake:' .. worker, queue) > 0 then
      return
    end
  end
end

-- The same for a job that has a delay: one that falls due within a minute is worth waking a
-- worker that will wait for it.
local function wake_for(queue, delay) -- cold
  if delay < 60 then
    wake(queue)
  end
end

-- A job of a queue runs no more: a queue that has a max-concurrency may run another one.
local function wake_for_slot(queue)
  if call('hexists', prefix .. 'config', queue .. '-max-concurrency') == 1 then
    wake(queue)
  end
end

-- Wakes one worker, whatever its queues are.
local function wake_any()
  local worker
  repeat
    worker = call('spop', prefix .. 'x:idle')
  until not worker or publish('x:wake:' .. worker, '') > 0
end
