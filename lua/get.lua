-- get: one job.
--
-- KEYS[1]  the namespace prefix
-- ARGV     NOW, jid, x:due if the JSON is to say when the job is due
-- Returns  its JSON, or nil; with x:due and large data an array of the JSON, '' and the data
-- Errors   Job()
-- Cost     4 commands; 1 more with x:due for a job that is scheduled or waits for others
-- Repeat   safe
-- Needs    exists hdel hget hmget lrange rpush smembers time zscore

-- @include "lib/base.lua"
-- @include "lib/beside.lua"
-- @include "lib/check.lua"
-- @include "lib/found.lua"

local text = find_job(call, required('Job', 'jid', ARGV[2]), ARGV[3] == 'x:due')
return text and with_large(text, '')
