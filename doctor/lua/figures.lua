-- figures: what is counted can be read. A command takes a figure that can't be for nothing, so it is
-- removed. Shares are those of tenants of whom jobs wait.
--
-- Items  s:<kind>:<day>:<queue> field, x:stats:<day>:<queue> field, x:rates:<minute> field,
--        x:fair:<priority>:<queue>, x:fair:<priority>:<queue> tenant

-- The figures that may be below zero: a mean of waits by several clocks, and how many jobs that failed
-- on a day are still failed, if the figures of that day had expired.
local SIGNED = {mean = true, failed = true}

local function check_count(key, field)
  local text = try('hget', prefix .. key, field)
  local n = finite(text)
  if type(text) == 'string' and (not n or n < 0 and not SIGNED[field]) then
    problem('stats_damaged', key, field, string.sub(text, 1, 100), function()
      call('hdel', prefix .. key, field)
    end)
  end
end

local function check_rates(key, field)
  local text = try('hget', prefix .. key, field)
  local length, names = string.match(field, '^(%d+):(.*)$')
  local named = length and string.sub(names, length + 1, length + 1) == ':'
  if type(text) == 'string' and
    not (named and string.find(text, '^%d+,%d+,%d+|[%d: ]*|[%d: ]*$')) then
    problem('rates_damaged', key, field, string.sub(text, 1, 100), function()
      call('hdel', prefix .. key, field)
    end)
  end
end

-- Whether a job of a priority waits for its turn in a queue.
local function waits(priority, queue)
  local first = call('zrange', prefix .. 'q:' .. queue .. '-work', '(' .. exact(priority - 1),
    exact(priority - 0.5), 'byscore', 'limit', 0, 1)
  return #first > 0
end

local function check_shares(key)
  local priority, queue = string.match(key, '^x:fair:([^:]*):(.*)$')
  priority = finite(priority)
  local work = queue and try('type', prefix .. 'q:' .. queue .. '-work').ok
  if priority and (work == 'none' or work == 'zset') and exists(key) and not waits(priority, queue) then
    problem('share_left', key, '', '', function()
      call('del', prefix .. key)
    end)
  end
end

-- A turn ends at 0.49 plus a step of at most 2^-31 * 100, or earlier.
local function check_share(key, tenant)
  local ends = score_in(key, tenant)
  if ends and not (ends >= 0 and ends < 0.5) then
    problem('share_damaged', key, tenant, tostring(ends), function()
      call('zrem', prefix .. key, tenant)
    end)
  end
end

return each(function(key, member)
  if string.sub(key, 1, 7) ~= 'x:fair:' then
    local check = string.sub(key, 1, 8) == 'x:rates:' and check_rates or check_count
    check(key, member)
  elseif member == '' then
    check_shares(key)
  else
    check_share(key, member)
  end
end)
