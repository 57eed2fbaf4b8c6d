-- await: the end of a job, and its result. If the job has not ended, the script that ends it will
-- publish a message on PREFIX x:done:<jid>.
--
-- Args     jid [, 'progress']
-- Returns  as result does. With 'progress', the JSON of an unfinished job also has its latest
--          progress, if any was reported; PREFIX x:progress:<jid> publishes later reports. For a
--          job that an outbox failed to put, the outbox's message in x:outbox:not:<jid>
-- Errors   Job()
-- Cost     1 command; 2 if there is no such job; 3 if it has not ended, 4 with its progress
-- For      Go
-- Repeat   safe

local jid = required('Job', 'jid', ARGV[3])
local found, ended = read_end(call, jid)
if found and not ended then
  local key = job_key(jid)
  local stored = call('hget', key, 'x:o')
  if not (stored and has_option(stored, AWAITED)) then
    call('hset', key, 'x:o', with_letter(stored, AWAITED))
  end
  if stored and ARGV[4] == 'progress' then
    found = string.sub(found, 1, -2) .. progress_member(jid, stored) .. '}'
  end
end
return found or call('get', prefix .. 'x:outbox:not:' .. jid)
