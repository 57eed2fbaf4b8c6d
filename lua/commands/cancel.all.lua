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

local count, rest = cancel_together(read_jids('Cancel', 3))
return '{"count":' .. count .. ',"rest":' .. array(rest) .. '}'
