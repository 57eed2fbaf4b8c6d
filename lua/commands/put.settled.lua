-- put.settled: lets the receipts of jobs end a minute from now, because nobody will put them again.
--
-- Args     jid...
-- Returns  nil
-- Errors   Put() when none is named
-- Cost     1 command for 500 jobs
-- For      Go
-- Repeat   safe

required('Put', 'jid', ARGV[3])
end_receipts({unpack(ARGV, 3)})
