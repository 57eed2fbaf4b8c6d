-- Waking idle workers: one for each job that can be popped, whoever put it.
--
-- A worker that found less than it asked for is in the set x:idle, and in x:idle:<queue> for
-- each of its queues, longest idle first. It listens to x:wake:<worker>. Whatever makes a job
-- ready wakes one of them; one that is busy again, or gone, has left x:idle or hears nothing,
-- and the next one is taken.

-- @include "lib/clock.lua"
-- @include "lib/events.lua"

-- How many that hear nothing are passed over, from either end: those who are idle for longest,
-- then the latest. Killed workers stay among the former.
local PASSED = 100

local function wake(queue) -- cold
  local waiting = prefix .. 'x:idle:' .. queue
  for i = 1, 2 * PASSED do
    local worker = try(i <= PASSED and 'zpopmin' or 'zpopmax', waiting)[1]
    if not worker then
      return
    end
    if try('srem', prefix .. 'x:idle', worker) == 1 and publish('x:wake:' .. worker, queue) > 0 then
      return
    end
  end
end

-- The same for a job that has a delay: one that falls due within an hour is worth waking a
-- worker that will wait for it.
local function wake_for(queue, delay) -- cold
  if delay < 3600 then
    wake(queue)
  end
end

-- A job of a queue runs no more: a queue that has a max-concurrency may run another one.
local function wake_for_slot(queue)
  if try('hexists', prefix .. 'config', queue .. '-max-concurrency') == 1 then
    wake(queue)
  end
end

-- A setting has changed: a queue that may run more jobs than before has them taken.
local function wake_for_limit(option)
  local queue = string.match(option, '^(.+)-max%-concurrency$')
  if queue then
    wake(queue)
  end
end

-- Whether a queue has anything that could be taken at once.
local function has_ready(queue)
  if call('exists', queue_key(queue, 'work')) == 1 then
    return true
  end
  for _, part in ipairs({'scheduled', 'recur', 'locks'}) do
    if finite(try('zcount', queue_key(queue, part), '-inf', stamp), 0) > 0 then
      return true
    end
  end
  return false
end

-- Wakes one worker, whatever its queues are.
local function wake_any()
  for _ = 1, PASSED do
    local worker = try('spop', prefix .. 'x:idle')
    if type(worker) ~= 'string' or publish('x:wake:' .. worker, '') > 0 then
      return
    end
  end
end
