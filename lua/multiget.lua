-- multiget: several jobs.
--
-- KEYS[1]  the namespace prefix
-- ARGV     NOW, x:due if the JSON is to say when jobs are due, jid...
-- Returns  a JSON array of those that exist
-- Errors   none
-- Cost     4 commands a job; 1 more with x:due for one that is scheduled or waits for others
-- Repeat   safe
-- Needs    exists hdel hget hmget lrange rpush smembers time zscore

-- @include "lib/jobs.lua"

local asks_due = ARGV[2] == 'x:due'
return find_jobs(ARGV, asks_due and 3 or 2, asks_due)
