-- schedule.leave: removes a stopping worker from the followers of its schedules.
--
-- Args     worker, id...
-- Returns  nil
-- Errors   Schedule.leave()
-- Cost     1 command, and 1 for each
-- For      Go
-- Repeat   safe

local worker = required('Schedule.leave', 'worker', ARGV[3])
must_write()
for i = 4, #ARGV do
  try('hdel', follow_key(ARGV[i]), worker)
end
