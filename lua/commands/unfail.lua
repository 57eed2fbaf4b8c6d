-- unfail: moves jobs of a failure group into a queue, oldest failure first.
--
-- Args     queue, group [, count (25) [, pairs: retries, n; ttl, seconds]]
-- Returns  the number of moved jobs
-- Errors   Unfail()
-- Cost     8 commands, 6 a job: callers must bound the count; 1000 jobs take about 10 ms
-- For      classic
-- Repeat   once

local queue = required('Queue', 'queue', ARGV[3])
local group = required('Unfail', 'group', ARGV[4])
local count = whole('Unfail', 'count', ARGV[5] or 25)
local given = read_gift('Unfail', 6, #ARGV)
if count == 0 then
  return 0
end
local key = prefix .. 'f:' .. group
local jids, jobs = call('lrange', key, -count, -1), {}
for i = 1, #jids do
  jobs[#jobs + 1] = read_failed(jids[i], queue)
end
unfail(jobs, given)
call('ltrim', key, 0, -count - 1)
drop_empty_group(group)
return #jids
