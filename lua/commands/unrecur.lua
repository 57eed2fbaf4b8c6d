-- unrecur: deletes a recurring job. Jobs already put are kept.
--
-- Args     jid
-- Returns  1, existing or not
-- Errors   Recurring()
-- Cost     3 commands
-- For      classic
-- Repeat   safe

local jid = required('Recurring', 'jid', ARGV[3])
local queue = call('hget', recur_key(jid), 'queue')
if queue then
  call('zrem', queue_key(queue, 'recur'), jid)
  call('del', recur_key(jid))
end
return true
