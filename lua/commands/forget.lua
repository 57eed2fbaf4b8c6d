-- forget: deletes a job that has ended, with everything that belongs to it. Publishes no message.
--
-- KEYS[1]  the namespace prefix
-- ARGV     COMMAND, NOW, jid
-- Returns  the state that the job was in: it was left as it is unless that is complete or failed.
--          Nil if there is no such job
-- Errors   Job(); Cancel() when it has failed, and another job depends on it
-- Cost     5 commands; 11 if it has failed
-- For      Go
-- Repeat   once

local jid = required('Job', 'jid', ARGV[3])
local key = job_key(jid)
local job = call('hmget', key, 'state', 'tags', 'x:o')
local state = job[1]

-- Deletes the record of a complete job.
local function delete_complete()
  must_write()
  try('zrem', prefix .. 'completed', jid)
  remove_tags(jid, names_of(job[2]), 1)
  call('del', key, key .. '-history', key .. '-dependencies')
  if job[3] and has_lifetime(job[3]) then
    note_life(jid)
  end
end

local function delete_failure()
  check_dependents(jid, {}, 0)
  must_write()
  delete_failed(jid, true)
  unfile_failures({jid})
end

if state == 'complete' then
  delete_complete()
elseif state == 'failed' then
  delete_failure()
else
  return state
end
try('zrem', prefix .. 'tracked', jid)
return state
