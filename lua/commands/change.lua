-- change: does the same with several jobs. Those with which it can't be done are left as they are.
--
-- KEYS[1]  the namespace prefix
-- ARGV     COMMAND, NOW, what, value, at most 500 jids
--          what, and the value: cancel, '', or 'all' to cancel no job if another one depends on any;
--          priority, a number; promote, a queue or '' for any; tag or untag, a JSON array of tags;
--          track or untrack, ''
-- Returns  JSON {count, left: [[jid, code, why], ...], rest}: how many were changed or needed no
--          change, which were left, and the jids that the caller has to name again, because those
--          to be canceled are in long failure groups or, with all, more than 250, or one of them
--          waits for more than 1,000 others
-- Errors   Change(); with all, Cancel() when a job that is not among them depends on one of them
-- Cost     of each job: cancel 18 commands, promote 2 and 7 a queue, tag 2 and 2 for each tag, priority
--          3 and 1 a call, track 4 and 2 a call, untrack 2
-- For      Go
-- Repeat   once
-- Needs    del exists expire get hdel hexists hget hincrby hmget hset lindex llen lpush lrange lrem
--          ltrim publish rpush sadd scard set sismember smembers spop srandmember srem sscan time
--          unlink zadd zcard zincrby zpopmax zpopmin zrange zrangebyscore zrem zrevrange
--          zrevrangebyscore zscore

local what, value = required('Change', 'what', ARGV[3]), required('Change', 'value', ARGV[4])
local jids, rest = read_jids('Change', 5), {}

local function cancel_all()
  local count
  if value == 'all' then
    count, rest = cancel_together(jids)
    return count
  end
  jids, rest = within_reach(jids)
  return cancel_each(jids)
end

local function promote_all()
  must_publish()
  return promote(jids, value)
end

-- Does something with each job that exists: do_it gets its jid and some of its fields, and returns why
-- it is impossible, or nil.
local function each_job(fields, do_it)
  local count = 0
  for i = 1, #jids do
    local jid = jids[i]
    local job = try('hmget', job_key(jid), unpack(fields))
    if not job[1] then
      leave_out(jid, job.err and 'server' or 'not_found', job.err or 'no such job')
    else
      local problem = do_it(jid, job)
      if problem then
        leave_out(jid, 'server', problem)
      else
        count = count + 1
      end
    end
  end
  return count
end

local function set_priorities()
  local priority = number('Change', 'priority', value)
  must_write() -- a full server then refuses no job of several
  return each_job(PRIORITY_FIELDS, function(jid, job)
    return set_priority(try, jid, job, priority)
  end)
end

local function tag_all()
  local list = names('Change', 'tags', value)
  return each_job({'tags'}, function(jid, job)
    call('hset', job_key(jid), 'tags', change_tags(jid, job[1], what == 'tag', list, 1))
  end)
end

local function track_all()
  must_publish()
  local tracked = prefix .. 'tracked'
  call('zcard', tracked) -- fails before anything is written
  local count = each_job({'state'}, function(jid)
    call('zadd', tracked, stamp, jid)
    publish('track', jid)
  end)
  untrack_gone(#jids)
  return count
end

local function untrack_all()
  must_publish()
  local tracked, count = prefix .. 'tracked', 0
  for i = 1, #jids do
    if call('zrem', tracked, jids[i]) == 1 or call('exists', job_key(jids[i])) == 1 then
      publish('untrack', jids[i])
      count = count + 1
    else
      leave_out(jids[i], 'not_found', 'no such job')
    end
  end
  return count
end

local actions = {
  cancel = cancel_all, priority = set_priorities, promote = promote_all, tag = tag_all,
  untag = tag_all, track = track_all, untrack = untrack_all,
}
if not actions[what] then
  reject('Change', 'Unknown action "' .. what .. '"')
end
return report(actions[what](), ',"rest":' .. array(rest))
