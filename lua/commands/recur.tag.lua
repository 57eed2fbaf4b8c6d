-- recur.tag: adds tags to a recurring job, for the jobs that it will put.
--
-- Args     jid, tag...
-- Returns  JSON of the recurring job's tags
-- Errors   Tag() when there is no such job
-- Cost     2 commands
-- For      classic
-- Repeat   safe

return change_recurring_tags('Tag', union)
