-- place: the members of the parts of a queue, of the completed jobs and of a failure group are jobs
-- that belong there, and a failure group has each of them once.
--
-- Items  q:<queue>-<part> jid, completed jid, f:<group> jid, f:<group> 2x<jid>

local function check_recurring(key, jid)
  local queue = try('hget', prefix .. 'r:' .. jid, 'queue')
  if type(queue) ~= 'string' then
    return 'ghost', '', function()
      take_out(key, jid)
    end
  elseif key ~= 'q:' .. queue .. '-recur' then
    local place = 'q:' .. queue .. '-recur'
    return 'misplaced', prefix .. place, function()
      if not score_in(place, jid) then
        call('zadd', prefix .. place, exact(score_in(key, jid)), jid)
      end
      take_out(key, jid)
    end
  end
end

local function check_member(key, jid)
  local job = read_job(jid)
  if not job then
    return 'ghost', '', function()
      take_out(key, jid)
    end
  end
  local place = place_of(job)
  if not place or place == key then
    return
  end
  local there = is_at(place, job)
  return 'misplaced', prefix .. place, (there or job.state == 'failed' or score_of(job)) and function()
    if not there then
      put_in_place(job)
    end
    take_out(key, jid)
  end
end

-- A jid in a failure group twice: all but the oldest entry can go.
local function check_twice(key, member)
  local jid = string.sub(member, 3)
  local at = try('lpos', prefix .. key, jid, 'COUNT', 0)
  if #at > 1 then
    problem('duplicate', key, member, '', function()
      call('lrem', prefix .. key, #at - 1, jid)
    end)
  end
end

return each(function(key, member)
  if string.sub(key, 1, 2) == 'f:' and string.sub(member, 1, 2) == '2x' then
    check_twice(key, member)
    return
  end
  local check = between(key, 'q:', '-recur') and check_recurring or check_member
  local kind, details, repair = check(key, member)
  -- It may have left since it was read.
  if kind and is_at(key, {id = member}) then
    problem(kind, key, member, details, repair)
  end
end)
