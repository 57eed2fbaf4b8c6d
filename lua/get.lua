-- get: one job.
--
-- KEYS[1]  the namespace prefix
-- ARGV     NOW, jid
-- Returns  its JSON, or nil
-- Errors   Job()
-- Cost     4 commands
-- Repeat   safe
-- Needs    exists hdel hget hmget lrange rpush smembers zscore

-- @include "lib/base.lua"
-- @include "lib/check.lua"
-- @include "lib/jobs.lua"

return find_job(call, required('Job', 'jid', ARGV[2]))
