-- sweep: clears away what nobody else has met: jobs whose lives have ended, and failed jobs that are
-- too old or too many. Tells the jobs that wait for failed ones, as the script that fails a job does,
-- of failures by scripts that tell nobody.
--
-- KEYS[1]  the namespace prefix
-- ARGV     NOW
-- Returns  how many jobs it has deleted, failed or told
-- Errors   none
-- Cost     3 commands when there is nothing to do, 4 more when jobs have failed; it ends at most 100
--          lives, and looks at 100 failed jobs
-- Repeat   safe
-- Needs    del exists expire get hdel hexists hget hincrby hmget hset lindex llen lpush lrange lrem
--          ltrim publish rpush sadd scard set smembers srem time zadd zincrby zpopmax zpopmin
--          zrangebyscore zrem zrevrangebyscore zscore
--
-- The hash x:sweep has the group, and the place in it, where the next sweep looks at failed jobs.

-- @include "lib/base.lua"
-- @include "lib/ended.lua"
-- @include "lib/events.lua"
-- @include "lib/expiry.lua"
-- @include "lib/lifetimes.lua"
-- @include "lib/options.lua"
-- @include "lib/policies.lua"
-- @include "lib/retention.lua"

-- How many failed jobs a sweep looks at.
local LOOKED = 100

-- The failure groups, sorted, from the one named first on.
local function groups_from(first)
  local groups, after, before = try('smembers', prefix .. 'failures'), {}, {}
  table.sort(groups)
  for i = 1, #groups do
    local list = groups[i] < first and before or after
    list[#list + 1] = groups[i]
  end
  for i = 1, #before do
    after[#after + 1] = before[i]
  end
  return after
end

-- Tells the jobs that wait for failed ones in a group, from a place on. Returns how many it has told,
-- and how many failed jobs it has looked at.
local function tell_group(group, from, limit)
  local jids, told = try('lrange', prefix .. 'f:' .. group, from, from + limit - 1), 0
  for i = 1, #jids do
    local job = try('hmget', job_key(jids[i]), 'state', 'x:o')
    if job[1] == 'failed' and job[2] and has_option(job[2], 'd') then
      told = told + tell_dependents(jids[i], job_ended)
    end
  end
  return told, #jids
end

-- Deletes and tells what is to be done about failed jobs. Returns how many.
local function sweep_failures()
  local at = try('hmget', prefix .. 'x:sweep', 'group', 'from')
  local first, from, left, done = at[1] or '', finite(at[2], 0), LOOKED, 0
  local _, keep = read_failing()
  local groups = groups_from(first)
  if keep and keep.seconds >= 0 then
    done = clear_list(keep.seconds)
  end
  for i = 1, #groups do
    local group = groups[i]
    if group ~= first then
      from = 0
    end
    local cleared = keep and clear_group(group, keep, left) or 0
    local told, looked = tell_group(group, from, left)
    done, left = done + cleared + told, left - math.max(cleared, looked, 1)
    if left <= 0 then
      try('hset', prefix .. 'x:sweep', 'group', group, 'from', from + looked)
      return done
    end
  end
  try('del', prefix .. 'x:sweep')
  return done
end

must_publish()
local done = end_lives(MAX_ENDED)
if call('exists', prefix .. 'failures') == 1 then
  done = done + sweep_failures()
end
return done
