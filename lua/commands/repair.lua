-- repair: applies an action to the named jobs that are in a list and match filters, in the order of
-- their names. A job that does not allow the action is left alone, and so is, by cancel, a job with
-- more than 1,000 dependencies, which Go cancels in steps.
--
-- Args     action, value, list, name, jids, limit, n, n arguments that are the filters of find,
--          pairs
--          action, value  cancel, promote, timeout, track, untrack or unfail, ''; priority, a
--                         number; tag or untag, a JSON array of tags; move, a queue
--          list, name     as in find, but not recurring; jids, '' for any job
--          jids           a JSON array of at most 500 jids. Jobs outside the list are passed over.
--                         A job in a failure group by mistake is left alone, and leaves the group
--          limit          the number of jobs to find, or 0 for any
--          pairs          for unfail: retries n, ttl seconds; for move: worker, delay, and the
--                         pairs of put
-- Returns  JSON {count, left: [[jid, code, why], ...], looked}: the number of jobs changed or
--          already so; the jobs left alone; and the number of jids examined, which is small in long
--          failure groups
-- Errors   Repair(), Queue(), Put()
-- Cost     3 commands; 2 for each job of a failure group, and 2 to 17 for each change
-- For      Go
-- Repeat   once

local action, value = required('Repair', 'action', ARGV[3]), required('Repair', 'value', ARGV[4])
local wanted = names('Repair', 'jids', required('Repair', 'jids', ARGV[7]))
local limit = whole('Repair', 'limit', ARGV[8])
local last = 9 + whole('Repair', 'n', ARGV[9])
if #wanted > MAX_NAMED then
  reject('Repair', 'More than ' .. MAX_NAMED .. ' jobs')
elseif ARGV[5] == 'recurring' then
  reject('Repair', 'Recurring jobs are not repaired')
end
local filters = read_filters('Repair', 10, last)
local list = these_of('Repair', ARGV[5], ARGV[6], wanted)

-- Jobs that are in the failure group of the list by mistake.
local strays = {}

-- The failed jobs of the group of the list. Leaves out jobs that are there by mistake, and passes
-- over jobs that have left the group.
local function without_strays(jids)
  local failed = {}
  for i = 1, #jids do
    local job = named_fields(try, job_key(jids[i]), {'state', 'failure'})
    if job.state == 'failed' and list_of(job.failure).group == ARGV[6] then
      failed[#failed + 1] = jids[i]
    elseif job.err then
      leave_out(jids[i], 'server', job.err)
    elseif near_end[jids[i]] then
      strays[#strays + 1] = jids[i]
      leave_out(jids[i], job.state and 'not_failed' or 'not_found',
        'it has not failed in ' .. ARGV[6])
    end
  end
  return failed
end

-- Calls do_it with the jid and some fields of each job. It returns a problem and its code, or nil.
local function each_job(jids, fields, do_it)
  local done = 0
  for i = 1, #jids do
    local jid = jids[i]
    local job = named_fields(try, job_key(jid), fields)
    if not job[fields[1]] then
      leave_out(jid, job.err and 'server' or 'not_found', job.err or 'no such job')
    else
      local problem, code = do_it(jid, job)
      if problem then
        leave_out(jid, code or 'server', problem)
      else
        done = done + 1
      end
    end
  end
  return done
end

local function unfail_all(jids)
  local given = read_gift('Repair', last + 1, #ARGV)
  local jobs, place = read_all_failed(jids), {}
  for i = 1, #wanted do
    place[wanted[i]] = i - 1
  end
  for i = 1, #jobs do
    jobs[i].after = place[jobs[i].jid]
  end
  unfail(jobs, given)
  leave_together(jids_of(jobs))
  for i = 1, #jobs do
    leave_group(jobs[i].jid, list_of(jobs[i].failure))
  end
  return #jobs
end

-- Reads a job to move, or leaves it out.
local function add_moved(puts, items, jid)
  local job = named_fields(try, job_key(jid), {'klass', 'data', 'x:o'})
  if not job.klass or not job.data then
    return leave_out(jid, job.err and 'server' or 'not_found', job.err or 'no such job')
  end
  local given = options('Repair', last + 1, #ARGV) -- which each job gets for itself
  local item = {
    queue = value, jid = jid, klass = job.klass, data = job.data, checked = '1',
    key = false, state = false, delay = given.delay and number('Repair', 'delay', given.delay) or 0,
  }
  add_given(puts, item, given)
  items[#items + 1] = item
  return not (job['x:o'] and has_option(job['x:o'], UNIQUE)) -- else the put may leave it as it is
end

local function move_all(jids)
  named('Queue', 'queue', value)
  local puts = new_puts(options('Repair', last + 1, #ARGV).worker or '')
  local items = puts.items
  puts.groups[1] = items
  local sure = {}
  for i = 1, #jids do
    sure[#sure + 1] = add_moved(puts, items, jids[i]) and jids[i] or nil
  end
  leave_later(sure)
  local moved = #items
  for _, refused in ipairs(moved > 0 and put(puts) or none) do
    leave_out(refused[2], 'exists', 'the job is ' .. refused[3])
    moved = moved - 1
  end
  leave_together(sure)
  return moved
end

local function time_out_all(jids)
  must_publish()
  return each_job(jids, {'state', 'queue'}, function(jid, job)
    if job.state ~= 'running' or not job.queue then
      return 'the job is ' .. job.state, 'not_running'
    end
    local broken = try('zcard', queue_key(job.queue, 'work'))
    if type(broken) == 'table' then
      return broken.err
    end
    time_out(jid, read_running(call, jid))
  end)
end

local function set_priorities(jids)
  local priority = number('Repair', 'priority', value)
  must_write() -- a full server then refuses no job of several
  return each_job(jids, PRIORITY_FIELDS, function(jid, job)
    return set_priority(try, jid, job, priority)
  end)
end

local function tag_all(jids)
  local tags = names('Repair', 'tags', value)
  return each_job(jids, {'tags'}, function(jid, job)
    call('hset', job_key(jid), 'tags', change_tags(jid, job.tags, action == 'tag', tags, 1))
  end)
end

local function track_all(jids)
  must_publish()
  local tracked = prefix .. 'tracked'
  call('zcard', tracked) -- fails before anything is written
  local done = each_job(jids, {'state'}, function(jid)
    call('zadd', tracked, stamp, jid)
    publish('track', jid)
  end)
  untrack_gone(#jids)
  return done
end

local function untrack_all(jids)
  must_publish()
  local tracked, done = prefix .. 'tracked', 0
  for i = 1, #jids do
    if call('zrem', tracked, jids[i]) == 1 or call('exists', job_key(jids[i])) == 1 then
      publish('untrack', jids[i])
      done = done + 1
    else
      leave_out(jids[i], 'not_found', 'no such job')
    end
  end
  return done
end

local actions = {
  cancel = cancel_each, move = move_all, priority = set_priorities, promote = promote,
  tag = tag_all, timeout = time_out_all, track = track_all, unfail = unfail_all, untag = tag_all,
  untrack = untrack_all,
}
if not actions[action] then
  reject('Repair', 'Unknown action "' .. action .. '"')
end
local count = MAX_NAMED
if action == 'move' or action == 'cancel' or action == 'unfail' then
  count = math.max(#within_reach(list.jids), 1) -- else leaving failure groups takes long
end
local found, _, stop = search('Repair', list, '', count, limit, filters)
if ARGV[5] == 'failed' then
  found = without_strays(found)
end
if strays[1] then
  must_write()
end
local done = actions[action](found)
for i = 1, #strays do
  leave_group(strays[i], {group = ARGV[6]})
end
return '{"count":' .. done .. ',"left":' .. array(left_alone) .. ',"looked":' ..
  (stop == '' and #wanted or list.at[tonumber(stop)]) .. '}'
