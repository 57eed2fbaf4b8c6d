-- queues.ready: selects the queues that have jobs for a worker, now or later.
--
-- Args     queue...
-- Returns  an array of the queues with waiting, locked, scheduled or recurring jobs, in their order
-- Cost     1 command for each
-- For      Go
-- Repeat   safe

local ready = {}
for i = 3, #ARGV do
  local key = queue_key(ARGV[i], '')
  if call('exists', key .. 'work', key .. 'locks', key .. 'scheduled', key .. 'recur') > 0 then
    ready[#ready + 1] = ARGV[i]
  end
end
return ready
