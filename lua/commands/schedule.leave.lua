-- schedule.leave: notes that a worker that stops no longer follows its schedules.
--
-- KEYS[1]  the namespace prefix
-- ARGV     COMMAND, NOW, worker, id...
-- Returns  nil
-- Errors   Schedule.leave()
-- Cost     1 command for each
-- For      Go
-- Repeat   safe
-- Needs    hdel time

local worker = required('Schedule.leave', 'worker', ARGV[3])
for i = 4, #ARGV do
  try('hdel', follow_key(ARGV[i]), worker)
end
