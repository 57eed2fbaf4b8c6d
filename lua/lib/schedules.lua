-- Registered schedules. The hash x:schedules has the last due time of each schedule by id. For
-- followed schedules, the sorted set x:schedule-ids also has the id, the hash x:schedule:<id> the
-- definition, and x:follow:<id> the followers: by worker, "since seen digest".

-- The seconds for which a worker counts as a schedule's follower after a check: three times the
-- interval between two checks.
local FOLLOWED = 180

local function schedule_key(id)
  return prefix .. 'x:schedule:' .. id
end

local function follow_key(id)
  return prefix .. 'x:follow:' .. id
end

-- Returns since when a worker follows a schedule, the time of its last check, and its digest.
local function read_follower(text)
  local since, seen, digest = string.match(
    type(text) == 'string' and text or '', '^(%S+) (%S+) (%S+)$')
  return finite(since) and since, finite(seen), digest
end

-- Removes workers not seen for long.
local function drop_gone(id)
  local followers, gone = try('hgetall', follow_key(id)), {}
  for i = 1, #followers, 2 do
    local _, seen = read_follower(followers[i + 1])
    if not seen or seen <= now - FOLLOWED then
      gone[#gone + 1] = followers[i]
    end
  end
  each_slice(try, 'hdel', follow_key(id), gone)
end

-- Reports whether a worker follows a schedule, or its definition with the given digest.
local function is_followed(id, digest)
  local followers = try('hgetall', follow_key(id))
  for i = 2, #followers, 2 do
    local _, seen, its = read_follower(followers[i])
    if seen and seen > now - FOLLOWED and (not digest or its == digest) then
      return true
    end
  end
  return false
end
