-- limit.hold: prevents jobs with a limit from starting for some time.
--
-- Args     name, seconds
--          seconds  from now, replacing an earlier hold; 0 ends it
-- Returns  nil
-- Errors   Limit()
-- Cost     2 commands, and 12 for each job that goes back, at most 100
-- For      Go
-- Repeat   safe

local name = check_limit_name('Limit', required('Limit', 'name', ARGV[3]))
local seconds = not_negative('Limit', 'seconds', ARGV[4])
must_publish()
if seconds > 0 then
  call('hset', prefix .. 'x:limits', name .. ' hold', exact(now + seconds))
else
  call('hdel', prefix .. 'x:limits', name .. ' hold')
end
limit_freed(name)
