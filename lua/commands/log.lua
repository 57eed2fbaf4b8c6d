-- log: adds an entry to a job's history.
--
-- Args     jid, message [, json]
-- Returns  nil
-- Errors   Log() when there is no such job
-- Cost     2 commands
-- For      classic
-- Repeat   once

local jid = required('Log', 'jid', ARGV[3])
local message = required('Log', 'message', ARGV[4])
-- The history is part of the job's JSON: an unreadable entry would make the job unreadable.
local data = ARGV[5] and strict_json('Log', 'data', ARGV[5])

local state, history = unpack(call('hmget', job_key(jid), 'state', 'history'))
if not state then
  raise('Log', no_job(jid))
end
local list, text = job_key(jid) .. '-history', entry(now, cjson.encode(message), data)
call('llen', list) -- fails before anything is written, or not at all
adopt_history(jid, history)
if type(record(job_key(jid), text)) == 'table' then
  call('rpush', list, text) -- the same error, for the caller
end
