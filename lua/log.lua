-- log: adds an entry of the caller's to a job's history.
--
-- KEYS[1]  the namespace prefix
-- ARGV     NOW, jid, message [, json]
-- Returns  nil
-- Errors   Log() when there is no such job
-- Cost     2 commands

-- @include "lib/clock.lua"
-- @include "lib/check.lua"
-- @include "lib/json.lua"
-- @include "lib/history.lua"

local jid = required('Log', 'jid', ARGV[2])
local message = required('Log', 'message', ARGV[3])
local data = ARGV[4]
if data then
  json('Log', 'data', data)
end

local job = call('hmget', job_key(jid), 'state', 'history')
if not job[1] then
  reject('Log', 'Job ' .. jid .. ' does not exist')
end
adopt_history(jid, job[2])
record(jid, entry(now, message, data))
