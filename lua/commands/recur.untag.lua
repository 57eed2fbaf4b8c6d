-- recur.untag: removes tags of a recurring job.
--
-- KEYS[1]  the namespace prefix
-- ARGV     COMMAND, NOW, jid, tag...
-- Returns  JSON of the recurring job's tags
-- Errors   Untag() when there is no such job
-- Cost     2 commands
-- For      classic
-- Repeat   safe

local jid = required('Recurring', 'jid', ARGV[3])
local tags = call('hget', recur_key(jid), 'tags')
if not tags then
  raise('Untag', no_job(jid))
end
tags = difference(names_of(tags), ARGV, 4)
call('hset', recur_key(jid), 'tags', array(tags))
return array(tags)
