-- sweep: deletes and repairs leftovers: expired jobs, failed jobs over a limit of age or number,
-- and tracked jobs that are gone. Notifies dependents of failures by scripts that did not, and
-- releases the dependents of complete jobs that had too many for one call. In the named queues,
-- moves due jobs, and jobs with expired locks, to where a pop would find them.
--
-- Args     queue...; '*' alone: 100 of the known queues, and other ones in the next call; '' alone:
--          only failed jobs, for the periodic calls of workers
-- Returns  the number of jobs deleted, failed, notified, moved, or warned of an expired lock; ''
--          alone: 1 if the next call continues among the failed jobs, 0 if it begins again
-- Cost     3 commands if there is nothing to do, and those of at most 100 ends of lives
-- For      Go
-- Repeat   safe
--
-- The hash x:sweep holds where the next sweep continues: the failure groups, as a JSON array, the
-- position in the first of them, and the cursor of the groups after them; and the positions in the
-- lists of known queues and of tracked jobs.

-- The numbers of failed jobs, of tracked jobs and of known queues that a sweep examines.
local LOOKED, MAX_QUEUES = 100, 100

-- The maximum number of jobs of queues that it moves.
local MAX_DUE = 100

-- Some of the failure groups, sorted, and the next cursor.
local function some_groups(cursor)
  local reply = try('sscan', prefix .. 'failures', cursor, 'COUNT', LOOKED)
  local groups = reply[2] or {}
  table.sort(groups)
  return groups, reply[1] or '0'
end

-- Notifies the dependents of failed jobs in a group, beginning at a place in it, and stops when its
-- budget is used up. Returns the number of notified jobs, and of examined failed jobs.
local function tell_group(group, from, limit)
  local jids, told = try('lrange', prefix .. 'f:' .. group, from, from + limit - 1), 0
  for i = 1, #jids do
    if budget.tells <= 0 then
      return told, i - 1
    end
    local state, stored = unpack(try('hmget', job_key(jids[i]), 'state', 'x:o'))
    if state == 'failed' and stored and has_option(stored, WATCHED) then
      told = told + tell_all({jids[i]}, '0', job_ended, true)
    end
  end
  return told, #jids
end

-- Deletes failed jobs and notifies dependents, from where the last sweep stopped. Returns a count.
local function sweep_failures()
  local sweep, left, done = prefix .. 'x:sweep', LOOKED, 0
  local cursor, groups, from = unpack(try('hmget', sweep, 'cursor', 'groups', 'from'))
  cursor, groups, from = cursor or '0', names_of(groups), finite(from, 0)
  local _, keep = read_failing()
  if keep and keep.seconds >= 0 then
    done = clear_list(keep.seconds)
  end
  if #groups == 0 then
    groups, cursor = some_groups(cursor)
  end
  repeat
    for i = 1, #groups do
      local cleared = keep and clear_group(groups[i], keep, left) or 0
      local told, looked = tell_group(groups[i], from, left)
      done, left = done + cleared + told, left - math.max(cleared, looked, 1)
      if left <= 0 or budget.tells <= 0 then
        try('hset', sweep, 'cursor', cursor, 'groups', cjson.encode({unpack(groups, i)}),
          'from', from + looked)
        return done
      end
      from = 0
    end
    local ended = cursor == '0'
    if not ended then
      groups, cursor = some_groups(cursor)
    end
  until ended
  try('hdel', sweep, 'cursor', 'groups', 'from')
  return done
end

-- The number of jobs of queues that may still be moved.
local room = MAX_DUE

local function count_due(queue, part)
  return call('zcount', queue_key(queue, part), '-inf', stamp)
end

-- Puts jobs whose locks have expired before all others of their queue.
local function hand_back_lost(queue, jids)
  for i = 1, #jids do
    call('zadd', queue_key(queue, 'work'), '+inf', jids[i])
    call('zrem', queue_key(queue, 'locks'), jids[i])
    call('hset', job_key(jids[i]), 'state', 'waiting', 'worker', '', 'expires', '0')
    stop_limited(jids[i], try('hget', job_key(jids[i]), 'x:o'))
  end
end

-- Moves the due jobs of a queue, if there is room for more. Returns their number.
local function sweep_queue(queue)
  local lost, recur = count_due(queue, 'locks'), count_due(queue, 'recur')
  local scheduled = count_due(queue, 'scheduled')
  if room <= 0 or lost + recur + scheduled == 0 then
    return 0
  end
  call('zrem', queue_key(queue, 'work'), '') -- fails if jobs could not be added later
  if lost > 0 then
    local cap = read_failing()
    hand_back_lost(queue, expire(queue, math.min(lost, room), read_lost_settings(cap)))
  end
  local locks = lost - count_due(queue, 'locks')
  bring_due(queue, recur > 0, scheduled > 0, room - locks)
  wake(queue)
  return locks + recur - count_due(queue, 'recur') + scheduled - count_due(queue, 'scheduled')
end

-- The known queues whose turn it is.
local function next_queues()
  local at = finite(try('hget', prefix .. 'x:sweep', 'at'), 0)
  local queues = try('zrange', prefix .. 'queues', at, at + MAX_QUEUES - 1)
  if #queues < MAX_QUEUES then
    local first = math.max(0, at - finite(try('zcard', prefix .. 'queues'), 0))
    local unlisted = try('zrange', prefix .. 'x:queues', first, first + MAX_QUEUES - #queues - 1)
    for i = 1, #unlisted do
      queues[#queues + 1] = unlisted[i]
    end
  end
  if #queues == MAX_QUEUES then
    try('hset', prefix .. 'x:sweep', 'at', at + MAX_QUEUES)
  elseif at > 0 then
    try('hdel', prefix .. 'x:sweep', 'at')
  end
  return queues
end

must_publish()
budget.tells = 100
if ARGV[3] == '' then
  sweep_failures()
  return call('hexists', prefix .. 'x:sweep', 'cursor')
end
local done = end_lives(MAX_ENDED)
budget.tells, budget.releases = budget.tells - done, RELEASED - done
if call('exists', prefix .. 'failures', prefix .. 'tracked', prefix .. 'x:rest') > 0 then
  done = done + settle_rest()
  if try('exists', prefix .. 'failures') == 1 then
    done = done + sweep_failures()
  end
  untrack_gone(LOOKED)
end
local queues = ARGV[3] == '*' and next_queues() or {unpack(ARGV, 3)}
for i = 1, #queues do
  local fine, moved = pcall(sweep_queue, queues[i])
  if fine then
    done, room = done + moved, room - moved
  else
    must_write() -- unlike a damaged queue, a server that takes no writes is an error
  end
end
return done
