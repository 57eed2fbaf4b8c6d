-- put.settled: expires the receipts of jobs in a minute, because no caller will put them again.
--
-- Args     jid...
-- Returns  nil
-- Errors   Put() when none is named
-- Cost     1 command for 500 jobs
-- For      Go
-- Repeat   safe

required('Put', 'jid', ARGV[3])
end_receipts({unpack(ARGV, 3)})
