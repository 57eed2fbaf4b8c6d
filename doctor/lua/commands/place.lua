-- place: the members of the parts of a queue, of the completed jobs and of a failure group are jobs
-- that belong there, and a failure group lists each job once.
--
-- Items  q:<queue>-<part> jid, completed jid, f:<group> jid, f:<group> 2x<jid>

local function check_recurring(key, jid)
  local queue = try('hget', recur_key(jid), 'queue')
  if type(queue) ~= 'string' then
    return 'ghost', '', function()
      take_out(key, jid)
    end
  end
  local place = queue_key(queue, 'recur')
  local due = score_at(key, jid)
  if key ~= place then
    return 'misplaced', place, fits(place, 'zset') and function()
      if not score_at(place, jid) then
        call('zadd', place, exact(due), jid)
      end
      take_out(key, jid)
    end
  elseif due and not is_possible(due) then
    local interval = finite(try('hget', recur_key(jid), 'interval'), 0)
    return 'time_impossible', tostring(due), interval > 0 and is_possible(interval) and function()
      call('zadd', key, exact(now + interval), jid)
    end
  end
end

-- The due time of a scheduled job is known only if a limit has parked it.
local function check_due(job, key)
  local due = score_at(key, job.id)
  if job.state == 'scheduled' and due and not is_possible(due) then
    return 'time_impossible', tostring(due), limit_of(job) and function()
      call('zadd', key, stamp, job.id)
    end
  end
end

local function check_member(key, jid)
  local job = fields_of(jid)
  if not job then
    return 'ghost', '', function()
      take_out(key, jid)
    end
  end
  local place = place_of(job)
  if not place then
    return
  elseif place == key then
    return check_due(job, key)
  end
  local there = is_at(place, jid)
  local is_known = there or job.state == 'failed' or usual_score(job)
  return 'misplaced', place, is_known and fits(place, place_type(job.state)) and function()
    if not there then
      put_in_place(job)
    end
    take_out(key, jid)
  end
end

-- A jid occurs in a failure group twice: all but the oldest entry can go.
local function check_twice(key, member)
  local jid = string.sub(member, 3)
  local at = try('lpos', key, jid, 'COUNT', 0)
  if #at > 1 then
    diagnose('duplicate', key, member, '', function()
      call('lrem', key, #at - 1, jid)
    end)
  end
end

return each(function(name, member, key)
  if group_in(key) and string.sub(member, 1, 2) == '2x' then
    check_twice(key, member)
    return
  end
  local check = between(name, 'q:', '-recur') and check_recurring or check_member
  local kind, details, repair = check(key, member)
  -- The member may have left since it was read.
  if kind and is_at(key, member) then
    diagnose(kind, key, member, details, repair)
  end
end)
