-- put.settled: expires the receipts of jobs in a minute, because no caller will put them again.
--
-- Args     jid...
-- Returns  nil
-- Errors   Put() when none is named
-- Cost     1 command for 500 jobs
-- For      Go
-- Repeat   safe

required('Put', 'jid', ARGV[3])
local receipts = {}
for i = 3, #ARGV do
  add_pair(receipts, exact(now + SETTLED), ARGV[i])
end
for from = 1, #receipts, 1000 do
  call('zadd', prefix .. 'x:outbox:put', 'XX',
    unpack(receipts, from, math.min(from + 999, #receipts)))
end
