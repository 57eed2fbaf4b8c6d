-- forget: deletes an ended job with everything that belongs to it. Publishes no message.
--
-- Args     jid
-- Returns  the former state; a job that was neither complete nor failed is left alone. Nil if there
--          is no such job
-- Errors   Job(); Cancel() when it has failed, and another job depends on it
-- Cost     5 commands; 11 if it has failed
-- For      Go
-- Repeat   once

local jid = required('Job', 'jid', ARGV[3])
local state, tags, stored = unpack(call('hmget', job_key(jid), 'state', 'tags', 'x:o'))

if state == 'complete' then
  must_write()
  delete_complete(jid, tags, stored)
elseif state == 'failed' then
  check_dependents(jid, {}, 0)
  must_write()
  delete_failed(jid, true)
  unfile_failures({jid})
else
  return state
end
try('zrem', prefix .. 'tracked', jid)
return state
