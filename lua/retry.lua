-- retry: gives a worker's job back, at the price of one of its retries.
--
-- KEYS[1]  the namespace prefix
-- ARGV     NOW, jid, queue, worker [, delay [, group, message]]
-- Returns  the retries that are left; below 0 the job has failed, in the given group
--          or in failed-retries-<queue>
-- Errors   Retry() when the job is not this worker's or not running
-- Cost     7 commands

-- @include "lib/check.lua"
-- @include "lib/give.lua"

local item = {
  jid = required('Job', 'jid', ARGV[2]),
  queue = required('Retry', 'queue', ARGV[3]),
  data = '',
  delay = number('Retry', 'delay', ARGV[5] or 0),
  group = ARGV[6],
  message = ARGV[7],
}
local problem = retry(required('Retry', 'worker', ARGV[4]), item)
if problem then
  reject('Retry', problem)
end
return item.remaining
