-- wake: wakes an idle worker of each given queue, or of every known queue that has jobs for one.
--
-- Args     queue...; or '' and the cursor of the last call, or '': at most 500 of all queues, fewer
--          if many workers do not listen. It then wakes workers of queues with ready jobs, or with
--          jobs due within an hour that no worker waits for
-- Returns  nil; of all queues the next cursor, empty at the end
-- Errors   Wake()
-- Cost     2 commands, 1 more a queue, 2 for a worker that is woken; of all queues up to 6 each
-- For      Go
-- Repeat   once

-- The maximum number of queues that a call checks from a cursor on, and the number of workers that
-- do not listen after which it stops.
local MAX_LOOKED_AT = 500
local MAX_UNHEARD = 500

local function wake_for_jobs(queue)
  if has_jobs(queue, '', 3600) then
    wake(queue)
  end
  return unheard >= MAX_UNHEARD
end

if ARGV[3] == '' then
  local cursor = required('Wake', 'cursor', ARGV[4])
  if call('exists', idle_key()) == 0 then
    return ''
  end
  must_write()
  return each_queue('Wake', cursor, MAX_LOOKED_AT, wake_for_jobs)
end
must_write()
for i = 3, #ARGV do
  wake(ARGV[i])
end
