-- workerJobs: the jids of a worker's jobs. For clients in PHP.
--
-- Args     [worker [, from]]
--          from: only jobs with a lock expiry from this time on; a score, such as (5 or -inf
-- Returns  a JSON array, earliest lock expiry first; null if no worker is named
-- Errors   the server's when from is no score
-- Cost     1 command
-- For      PHP
-- Repeat   safe

local worker = ARGV[3]
if not worker then
  return 'null'
end
return array(call('zrangebyscore', worker_key(worker), ARGV[4] or '-inf', '+inf'))
