-- multiget: several jobs.
--
-- KEYS[1]  the namespace prefix
-- ARGV     NOW, jid...
-- Returns  a JSON array of those that exist
-- Errors   none
-- Cost     4 commands a job
-- Repeat   safe
-- Needs    exists hdel hget hmget lrange rpush smembers zscore

-- @include "lib/jobs.lua"

return find_jobs(ARGV, 2)
