-- figures: statistics are numbers. Commands treat any other value as zero, so the repair removes
-- it. A tenant has a share only while its jobs wait.
--
-- Items  s:<kind>:<day>:<queue> field, x:stats:<day>:<queue> field, x:rates:<minute> field,
--        x:fair:<priority>:<queue>, x:fair:<priority>:<queue> tenant

-- The figures that may be negative: a mean of waits by several clocks, and the number of jobs that
-- failed on a day and are still failed, if the figures of that day had expired.
local SIGNED = {mean = true, failed = true}

local function check_count(key, field)
  local text = try('hget', key, field)
  local n = finite(text)
  if type(text) == 'string' and (not n or n < 0 and not SIGNED[field]) then
    diagnose('stats_damaged', key, field, string.sub(text, 1, 100), function()
      call('hdel', key, field)
    end)
  end
end

local function check_rates(key, field)
  local text = try('hget', key, field)
  local length, rest = string.match(field, '^(%d+):(.*)$')
  local divided = length and string.sub(rest, length + 1, length + 1) == ':'
  if type(text) == 'string' and
    not (divided and string.find(text, '^%d+,%d+,%d+|[%d: ]*|[%d: ]*$')) then
    diagnose('rates_damaged', key, field, string.sub(text, 1, 100), function()
      call('hdel', key, field)
    end)
  end
end

-- Whether a job of a priority waits for its turn in a queue.
local function waits(priority, queue)
  local first = call('zrange', queue_key(queue, 'work'), '(' .. exact(priority - 1),
    exact(priority - 0.5), 'byscore', 'limit', 0, 1)
  return #first > 0
end

local function check_shares(key, priority, queue)
  priority = finite(priority)
  local work = queue and try('type', queue_key(queue, 'work')).ok
  if priority and (work == 'none' or work == 'zset') and is_there(key) and
    not waits(priority, queue) then
    diagnose('turn_left', key, '', '', function()
      call('del', key)
    end)
  end
end

-- A turn ends at 0.49 plus a step of at most 2^-31 * 100, or earlier.
local function check_share(key, tenant)
  local ends = score_at(key, tenant)
  if ends and not (ends >= 0 and ends < 0.5) then
    diagnose('turn_damaged', key, tenant, tostring(ends), function()
      call('zrem', key, tenant)
    end)
  end
end

return each(function(name, member, key)
  if string.sub(name, 1, 7) ~= 'x:fair:' then
    local check = string.sub(name, 1, 8) == 'x:rates:' and check_rates or check_count
    check(key, member)
  elseif member == '' then
    check_shares(key, string.match(name, '^x:fair:([^:]*):(.*)$'))
  else
    check_share(key, member)
  end
end)
