-- Tracked jobs. Deleted jobs remain: classic scripts list them as expired until they are untracked.
-- To limit the number, sweeps and Go's commands for tracking jobs drop some.

-- Checks limit tracked jobs, and drops deleted jobs. The next call continues after these: x:sweep
-- has the number of jobs before its first.
local function untrack_gone(limit) -- cold
  local tracked, sweep = prefix .. 'tracked', prefix .. 'x:sweep'
  local from, gone = finite(try('hget', sweep, 'tracked'), 0), {}
  local jids = try('zrange', tracked, from, from + limit - 1)
  for i = 1, #jids do
    if call('exists', job_key(jids[i])) == 0 then
      gone[#gone + 1] = jids[i]
    end
  end
  each_slice(try, 'zrem', tracked, gone)
  if #jids == limit then
    try('hset', sweep, 'tracked', from + limit - #gone)
  elseif from > 0 then
    try('hdel', sweep, 'tracked')
  end
end
