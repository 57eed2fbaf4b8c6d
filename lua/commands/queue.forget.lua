-- queue.forget: removes queues from the list of known queues; their jobs are kept.
--
-- KEYS[1]  the namespace prefix
-- ARGV     COMMAND, NOW, queue...
-- Returns  nil
-- Errors   Queue.forget() when none is named
-- Cost     2 commands for each
-- For      classic
-- Repeat   safe
-- Needs    time zrem

required('Queue.forget', 'queue', ARGV[3])
for i = 3, #ARGV do
  call('zrem', prefix .. 'queues', ARGV[i])
  try('zrem', prefix .. 'x:queues', ARGV[i])
end
