-- unpause: unpauses queues: jobs are taken from them again.
--
-- Args     queue...
-- Returns  nil
-- Errors   Unpause() when none is named
-- Cost     2 commands for each, and the commands that wake a worker
-- For      classic
-- Repeat   safe

required('Unpause', 'queue', ARGV[3])
for i = 3, #ARGV do
  if call('srem', prefix .. 'paused_queues', ARGV[i]) == 1 then
    publish_more({event = 'unpaused', queue = ARGV[i]})
  end
  wake(ARGV[i])
end
