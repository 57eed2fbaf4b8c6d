-- tracked: the jids of the tracked jobs, those of jobs that are gone among them. For clients in
-- PHP.
--
-- KEYS[1]  the namespace prefix
-- ARGV     NOW
-- Returns  a JSON array, oldest first, of the jobs that were tracked less than jobs-history ago
-- Errors   none
-- Cost     2 commands
-- Repeat   safe
-- Needs    hget time zrangebyscore

local call = redis.call
local prefix = KEYS[1]

local stamp, usual = ARGV[1], true
if stamp == '' then
  local time = call('time')
  stamp = time[1] .. string.format('.%06d', time[2])
else
  usual = stamp and string.find(stamp, '^%d+%.?%d*$')
end
local now = usual and stamp + 0 or tonumber(stamp)
if not now or now - now ~= 0 then
  error('Arg "now" missing or not a number: ' .. tostring(stamp))
end
if not usual then
  stamp = string.format('%.17g', now)
end





local keep
repeat
  local text, default = call('hget', prefix .. 'config', 'jobs-history'), 604800
  local n = text and tonumber(text)
  if n and n - n == 0 then
    keep = n
    break
  end
  keep = default
until true
do
  local list = call('zrangebyscore', prefix .. 'tracked', '(' .. string.format('%.17g', (now - keep)), '+inf')
  if #list == 0 then
    return '[]'
  end
  return cjson.encode(list)
end

