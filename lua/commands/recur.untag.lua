-- recur.untag: removes tags from a recurring job.
--
-- Args     jid, tag...
-- Returns  JSON of the recurring job's tags
-- Errors   Untag() when there is no such job
-- Cost     2 commands
-- For      classic
-- Repeat   safe

return change_recurring_tags('Untag', difference)
