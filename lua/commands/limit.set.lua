-- limit.set: defines or changes a limit. Parked jobs return to work if they now have room.
--
-- Args     name, concurrency, rate, per
--          concurrency  how many jobs may run at a time; 0: any number
--          rate, per    how many jobs may start in any period of per seconds; both 0: any number
-- Returns  nil
-- Errors   Limit()
-- Cost     2 commands, and 12 for each job that goes back, at most 100
-- For      Go
-- Repeat   safe

local name = check_limit_name('Limit', required('Limit', 'name', ARGV[3]))
local max = whole('Limit', 'concurrency', ARGV[4])
local rate, per = whole('Limit', 'rate', ARGV[5]), number('Limit', 'per', ARGV[6])
if (rate > 0) ~= (per > 0) or per < 0 then
  reject('Limit', 'Arg "rate" and "per" go together: ' .. ARGV[5] .. ' and ' .. ARGV[6])
elseif max == 0 and rate == 0 then
  reject('Limit', 'Arg "concurrency" or "rate" must be more than 0')
end

must_publish()
call('hset', prefix .. 'x:limits', name, ARGV[4] .. ' ' .. ARGV[5] .. ' ' .. ARGV[6])
limit_freed(name)
