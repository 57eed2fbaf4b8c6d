-- limit.info: the definition and the use of a limit.
--
-- Args     name
-- Returns  an array of texts: concurrency, rate and per, each 0 if there is none; 1 if the
--          definition is the limit's own, else 0; the end of its hold, or 0; when the next job may
--          start, or 0 if it may start now or when a slot is free; the number of parked jobs; an
--          array of the jids of the first 100 of them; and the jids of at most 1000 running jobs
-- Errors   Limit()
-- Cost     7 commands, and 3 for each job whose lock may have ended
-- For      Go
-- Repeat   safe

local name = check_limit_name('Limit', required('Limit', 'name', ARGV[3]))
local limit = read_limit(name, 1)
local opens = limit.hold or limit.rate > 0 and rate_opens(limit) or 0
local wait = limit_key(name, 'wait')
local first = try('zrevrange', wait, 0, 99)
local reply = {
  exact(limit.max), exact(limit.rate), exact(limit.per),
  try('hexists', prefix .. 'x:limits', name) == 1 and '1' or '0',
  exact(limit.hold or 0), exact(opens), exact(finite(try('zcard', wait), 0)),
  first.err and none or first,
}
local held = try('zrange', limit_key(name, 'held'), 0, 999, 'WITHSCORES')
for i = 1, limit.max > 0 and #held or 0, 2 do
  local ends = finite(held[i + 1], 0)
  if ends > now or (slot_ends(held[i]) or 0) > now then
    reply[#reply + 1] = held[i]
  end
end
return reply
