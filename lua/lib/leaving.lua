-- Removing jobs from failure groups. Redis finds a job in a group by passing over all earlier jobs.
-- To remove several jobs from a long group, a call marks them, and removes all marks at once.

-- The mark, not a jid.
local GONE = 'x:gone'

-- The maximum number of entries of groups to pass over, in about 5 ms, to remove several jobs from
-- anywhere, and the maximum number of search steps in a call, in about 2 ms.
local MAX_PASSED_OVER = 300000
local MAX_HALVED = 150

-- The number of jobs to read around a found job: others may be near.
local NEAR = 250

-- The places found in long groups, by group, and the number of search steps so far.
local places, halved = {}, 0

-- The jobs removed from their groups by leave_together.
local left_groups = {}

-- The number of a group's oldest jobs that are near the end, and the jobs found there.
local NEAR_END = 1000
local near_end = {}

-- Notes which of some jobs are near the end of a group. Fails if the group is not a list.
local function find_near_end(key, jids) -- cold
  for i = 1, #jids do
    near_end[jids[i]] = call('lpos', key, jids[i], 'RANK', -1, 'MAXLEN', NEAR_END)
  end
end

-- Returns the place of a job in a long group, or nil. The newest failures come first.
local function find_place(group, jid, failure, length) -- cold
  local key, low, high = prefix .. 'f:' .. group, 0, length
  places[group] = places[group] or {}
  local its = places[group]
  while not its[jid] and halved < MAX_HALVED do
    halved = halved + 1
    if low == high then
      local first = math.max(low - NEAR / 2, 0)
      local near = try('lrange', key, first, first + NEAR - 1)
      for i = 1, #near do
        its[near[i]] = first + i - 1
      end
      break
    end
    local middle = math.floor((low + high) / 2)
    if failed_at(key, middle) > finite(failure.when, 0) then
      low = middle + 1
    else
      high = middle
    end
  end
  return its[jid]
end

-- Defers removing the jobs with known places in long groups until leave_together.
local function leave_later(jids) -- cold
  for _, its in pairs(places) do
    for i = 1, #jids do
      left_groups[jids[i]] = left_groups[jids[i]] or its[jids[i]]
    end
  end
end

-- Removes the jobs with known places from long groups. The caller must call leave_group for the
-- rest, before or afterward.
local function leave_together(jids) -- cold
  leave_later(jids)
  for group, its in pairs(places) do
    local key, count, last = prefix .. 'f:' .. group, 0, 0
    for i = 1, #jids do
      local place = its[jids[i]]
      if place and try('lindex', key, place) == jids[i] and try('lset', key, place, GONE).ok then
        count, last = count + 1, math.max(last, place)
      elseif place then
        try('lrem', key, 1, jids[i])
      end
    end
    if count > 0 then -- from the nearer end
      try('lrem', key, 2 * last < finite(try('llen', key), 0) and count or -count, GONE)
    end
  end
end

-- Removes a job with a decoded failure from its group. A count of -1 means it is one of the oldest.
local function leave_group(jid, failure, count)
  local group = failure.group
  if type(group) == 'string' and not left_groups[jid] then
    local key = prefix .. 'f:' .. group
    count = count or near_end[jid] and -1
    local length = count and 0 or finite(try('llen', key), 0)
    if length >= LONG_GROUP then -- from the nearer end: the newest failure comes first
      local middle = failed_at(key, math.floor(length / 2))
      count = finite(failure.when, 0) < middle and -1 or 1
    end
    try('lrem', key, count or 0, jid)
    drop_empty_group(group)
  end
end

-- Returns the first of these jobs, as many as one call may remove from their groups, but at most
-- most; and the others. In a long group, all jobs with known places cost one pass together.
local function within_reach(jids, most) -- cold
  local left, count, passed = MAX_PASSED_OVER, math.min(#jids, most or #jids), {}
  for i = 1, count do
    local state, failure = unpack(
      near_end[jids[i]] and none or try('hmget', job_key(jids[i]), 'state', 'failure'))
    failure = state == 'failed' and list_of(failure) or {}
    local group, cost = failure.group, 0
    if type(group) == 'string' then
      cost = finite(try('llen', prefix .. 'f:' .. group), 0)
      if cost >= LONG_GROUP and find_place(group, jids[i], failure, cost) then
        cost, passed[group] = passed[group] and 0 or cost, true
      end
    end
    if cost > left and i > 1 and cost > 0 then
      count = i - 1
      break
    end
    left = left - cost
  end
  return {unpack(jids, 1, count)}, {unpack(jids, count + 1)}
end
