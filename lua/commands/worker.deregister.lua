-- worker.deregister: removes workers from the list of known workers. They keep their locks.
--
-- Args     worker...
-- Returns  nil
-- Errors   Worker.deregister() when none is named
-- Cost     2 commands for each
-- For      classic
-- Repeat   safe

required('Worker.deregister', 'worker', ARGV[3])
for i = 3, #ARGV do
  call('zrem', prefix .. 'workers', ARGV[i])
  call('del', registry_key(ARGV[i]))
end
