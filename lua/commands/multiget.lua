-- multiget: several jobs.
--
-- Args     x:due if the JSON must have due times, jid...
-- Returns  a JSON array of the existing ones; with x:due and large data an array: that JSON, in
--          which beside says which data a job has; a JSON array of the jids for which there was no
--          room, or ''; and the data. With x:due, dependents and dependencies that are thousands in
--          all are not shown, but named in left_out
-- Cost     4 commands a job, and more of one as for get
-- For      classic
-- Repeat   safe

local asks_due = ARGV[3] == 'x:due'
return find_jobs(ARGV, asks_due and 4 or 3, asks_due)
