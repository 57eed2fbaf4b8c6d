-- batch.commit: closes a batch to new members. If all members have ended, the batch is released, as
-- by the completion of its last member.
--
-- Args     jid
-- Returns  the number of pending members
-- Errors   Batch.commit() when there is no such job, or it is not a batch
-- Cost     6 commands, 8 more if the batch is ready
-- For      Go
-- Repeat   safe

local jid = required('Job', 'jid', ARGV[3])
local _, state = read_batch('Batch.commit', jid)
local dependencies = job_key(jid) .. '-dependencies'
local left = call('scard', dependencies)
if call('sismember', dependencies, OPEN) == 0 then
  return left
end
must_write()
if left == 1 and state == 'depends' then
  raise_any('Batch.commit', free(jid, true))
end
undepend(jid, OPEN)
return left - 1
