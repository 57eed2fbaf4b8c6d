-- limit.delete: removes a limit's definition and hold. Parked jobs return to work if they now have
-- room.
--
-- Args     name
-- Returns  nil
-- Errors   Limit()
-- Cost     2 commands, and 12 for each job that goes back, at most 100
-- For      Go
-- Repeat   safe

local name = check_limit_name('Limit', required('Limit', 'name', ARGV[3]))
must_publish()
call('hdel', prefix .. 'x:limits', name, name .. ' hold')
limit_freed(name)
