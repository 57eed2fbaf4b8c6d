-- cancel.all: deletes jobs in any state together. Many jobs take several calls.
--
-- Args     at most 500 jids
-- Returns  JSON {count, rest}: the number of deleted jobs, and the jids for the next call. A call
--          deletes at most 100 jobs, fewer if they are in long failure groups or have more than
--          1,000 dependencies
-- Errors   Cancel() when another job depends on one of them; none is deleted then
-- Cost     18 commands a job
-- For      Go
-- Repeat   once

required('Cancel', 'jid', ARGV[3])
if #ARGV - 3 >= MAX_NAMED then
  reject('Cancel', 'More than ' .. MAX_NAMED .. ' jobs')
end
local jids = union({}, ARGV, 3) -- each once
local order = dependents_first(jids, dependents_of_all(jids))
local some = within_reach(order, MAX_CANCELED)
local jobs, count = read_first(some), 0
must_publish()
if #jobs == 0 then
  unlink_some(order[1])
end
leave_together({unpack(order, 1, #jobs)})
for i = 1, #jobs do
  cancel_job(order[i], jobs[i])
  count = count + (jobs[i].state and jobs[i].state ~= 'complete' and 1 or 0)
end
return '{"count":' .. count .. ',"rest":' .. array({unpack(order, #jobs + 1)}) .. '}'
