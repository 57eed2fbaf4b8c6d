-- end: completes a job, fails it, or makes it run again, in any state and whoever holds the lock.
--
-- Args     jid, 'complete' or 'failed', group, message, tries [, result]
--          group, message  of a failure; else ''
--          tries    the number of calls that it takes to end the job, counted by the job's option
--                   n, or 0 to end it now. Earlier calls requeue a running or timed-out job
--          result   JSON
-- Returns  'complete' or 'failed', or the new state of a job that continues; '!' and the state of a
--          job that had already ended, which is left alone. 'complete+' or 'failed+' if sweep must
--          still release or notify some dependents. 'unlinked' if the job has more than 1,000
--          dependencies: some are removed, the job is held back, and the caller must repeat the
--          call. Nil if there is no such job
-- Errors   Job(), End()
-- Cost     2 commands, and those of complete or fail; 2 for each job that it waits for
-- For      Go
-- Repeat   once
-- Hot
-- Library  enqueue fail give_up lock_lost stop_all_limited undepend

local jid = required('Job', 'jid', ARGV[3])
local as, group, message = ARGV[4], ARGV[5] or '', ARGV[6] or ''
local tries = whole('End', 'tries', ARGV[7])
if as ~= 'complete' and as ~= 'failed' then
  reject('End', 'Unknown state "' .. tostring(as) .. '"')
end
if as == 'failed' then
  required('End', 'group', group ~= '' and group)
end
local result = ARGV[8] and strict_json('End', 'result', ARGV[8])

local key = job_key(jid)
local state, queue, worker, priority, history, grace, stored, place, time, attempts = unpack(
  call('hmget', key, 'state', 'queue', 'worker', 'priority', 'history', 'grace', 'x:o', 'x:place',
    'time', 'x:attempts'))
if not state then
  return false
elseif state == 'complete' or state == 'failed' then
  return '!' .. state
elseif not queue then
  raise('End', no_queue(jid))
end

local calls = finite(split_options(stored)[CALLS], 0) + 1
local before, held = state, state == 'running' or state == 'stalled'
worker = worker or ''

-- Returns the job to its place or, if unknown, to the front of its priority. Returns its state.
local function requeue_in_place()
  local item = {
    jid = jid, key = key, current = queue, history = history, grace = grace, data = '',
    began = state == 'running' and time, attempts = attempts,
  }
  local fields, score = {'state', 'waiting', 'worker', '', 'expires', '0'}, finite(priority, 0)
  if place then
    score = work_score(finite(place, now), priority)
    fields[7], fields[8] = 'time', place
  end
  local _, problem = enqueue(jid, queue, 0, score)
  raise_any('End', problem)
  give_up(item, worker, fields, 'released')
  wake_for(queue, 0)
  if stored then
    stop_limited(jid, stored)
  end
  return 'waiting'
end

-- Completes or fails the job. Returns its state.
local function end_now()
  local others = call('smembers', key .. '-dependencies')
  local item = {jid = jid, queue = queue, data = '', anybody = true, result = result}
  if as == 'complete' then
    item.delay, item.depends = 0, none
    complete(worker, {item})
    as = item.state
  else
    item.group, item.message = group, message
    item.problem = fail(worker, item)
    as = budget.tells > 0 and as or 'failed+'
  end
  raise_any('End', item.problem)
  for i = 1, #others do
    undepend(jid, others[i])
  end
  return as
end

must_publish()
if state == 'depends' and calls >= tries
  and call('scard', key .. '-dependencies') > max_unlinked() then
  unlink_some(jid)
  return 'unlinked'
end
budget.releases = RELEASED
if calls >= tries then
  state = end_now()
elseif held then
  state = requeue_in_place()
else
  must_write()
end
if state ~= 'waiting' and before == 'waiting' and stored and has_option(stored, FAIR) then
  leave_turns(queue, priority)
end
if tries > 0 and call('exists', key) == 1 then -- counts the call, unless the job was deleted
  call('hset', key, 'x:o', with_value(call('hget', key, 'x:o'), CALLS, calls))
end
if held and worker ~= '' then
  lock_lost(jid, worker)
end
return state
