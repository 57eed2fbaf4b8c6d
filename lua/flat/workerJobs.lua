-- workerJobs: the jids of a worker's jobs. For clients in PHP.
--
-- KEYS[1]  the namespace prefix
-- ARGV     NOW, [worker [, from]]
--          from: only jobs whose locks end at that time or later; a score, such as (5 or -inf
-- Returns  a JSON array, the lock that ends first first; null when no worker is named
-- Errors   the server's when from is no score
-- Cost     1 command
-- Repeat   safe
-- Needs    zrangebyscore

local call = redis.call
local prefix = KEYS[1]




local worker = ARGV[2]
if not worker then
  return 'null'
end
do
  local list = call('zrangebyscore', prefix .. 'w:' .. worker .. ':jobs', ARGV[3] or '-inf', '+inf')
  if #list == 0 then
    return '[]'
  end
  return cjson.encode(list)
end

