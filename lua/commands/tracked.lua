-- tracked: the jids of the tracked jobs, including jobs that are gone. For clients in PHP.
--
-- Args     none
-- Returns  a JSON array, oldest first, of the jobs tracked within the last jobs-history seconds
-- Cost     2 commands
-- For      PHP
-- Repeat   safe

local keep = finite(call('hget', prefix .. 'config', 'jobs-history'), DEFAULT_JOBS_HISTORY)
return array(call('zrangebyscore', prefix .. 'tracked', '(' .. exact(now - keep), '+inf'))
