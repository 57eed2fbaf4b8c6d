-- cancel.all: deletes jobs together, whatever their state, in several calls if they are many.
--
-- Args     at most 500 jids
-- Returns  JSON {count, rest}: how many were deleted, and the jids that the caller has to name
--          again: a call deletes at most 100, fewer if they are in long failure groups or wait for
--          more than 1,000 others
-- Errors   Cancel() when another job depends on one of them; none is deleted then
-- Cost     18 commands a job
-- For      Go
-- Repeat   once

local count, rest = cancel_together(read_jids('Cancel', 3))
return '{"count":' .. count .. ',"rest":' .. array(rest) .. '}'
