-- workerJobs: the jids of a worker's jobs. For clients in PHP.
--
-- Args     [worker [, from]]
--          from: only jobs whose locks end at that time or later; a score, such as (5 or -inf
-- Returns  a JSON array, the lock that ends first first; null when no worker is named
-- Errors   the server's when from is no score
-- Cost     1 command
-- For      PHP
-- Repeat   safe

local worker = ARGV[3]
if not worker then
  return 'null'
end
return array(call('zrangebyscore', worker_key(worker), ARGV[4] or '-inf', '+inf'))
