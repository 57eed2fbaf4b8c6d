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
local seconds = number('Limit', 'seconds', ARGV[4])
if seconds < 0 then
  reject('Limit', 'Arg "seconds" is negative: ' .. ARGV[4])
end
must_publish()
if seconds > 0 then
  call('hset', prefix .. 'x:limits', name .. ' hold', exact(now + seconds))
else
  call('hdel', prefix .. 'x:limits', name .. ' hold')
end
limit_freed(name)
