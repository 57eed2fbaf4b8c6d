-- pause: pauses queues: no jobs are taken from them until they are unpaused.
--
-- Args     queue...
-- Returns  nil
-- Errors   Pause() when none is named
-- Cost     2 commands for each
-- For      classic
-- Repeat   safe

required('Pause', 'queue', ARGV[3])
for i = 3, #ARGV do
  if call('sadd', prefix .. 'paused_queues', ARGV[i]) == 1 then
    publish_more({event = 'paused', queue = ARGV[i]})
  end
end
