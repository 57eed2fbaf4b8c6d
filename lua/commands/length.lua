-- length: the number of locked, waiting and scheduled jobs of a queue, together.
--
-- Args     queue
-- Returns  the number
-- Errors   Queue()
-- Cost     3 commands
-- For      classic
-- Repeat   safe

local queue = required('Queue', 'queue', ARGV[3])
return call('zcard', queue_key(queue, 'locks')) + call('zcard', queue_key(queue, 'work')) +
  call('zcard', queue_key(queue, 'scheduled'))
