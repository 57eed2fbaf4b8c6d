-- Completing jobs, each with its own outcome. Shared keys are read and written only once.

-- Whether a job in this call has limits, or an option that takes effect now.
local frees_limits, has_ending

-- Writes the fields changed by every outcome, and more.
local function settle(key, state, queue, remaining, more)
  call('hset', key, 'state', state, 'queue', queue, 'time', stamp, 'worker', '', 'failure', '{}',
    'expires', '0', 'remaining', remaining, unpack(more))
end

-- The same with the result and data of an item, if present.
local function settle_item(item, state, queue)
  local more = item.data ~= '' and {'data', item.data} or none
  if item.result then
    more = {'x:result', result_field(state, stamp, item.result), unpack(more)}
  end
  settle(item.key, state, queue, item.retries, more)
end

-- Reads the fields needed to complete a job.
local function read_before_end(key)
  return try('hmget', key, 'worker', 'state', 'time', 'retries', 'queue', 'grace', 'x:o')
end

-- Reads a job to complete: this worker's or, with item.anybody, any. Returns the problem, or nil.
local function read_completed(item, worker)
  local jid = item.jid
  local key = job_key(jid)
  local job = read_before_end(key)
  local problem = job.err and job or not item.anybody
    and not_owned('Complete', jid, job, worker, item.since)
  if problem then
    return problem
  end
  local state, began, retries, queue, grace, stored = unpack(job, 2)
  if item.queue ~= queue then
    return new_problem('wrong_queue', jid, is('running in another queue: ' .. tostring(queue)))
  end
  item.key, item.retries, item.began = key, retries or DEFAULT_RETRIES, began
  if item.anybody and state ~= 'running' then
    item.began = stamp -- it did not run
  end
  if grace then
    item.grace = grace
  end
  if stored then
    local has = letters_of(stored)
    item.stored, frees_limits = stored, frees_limits or has[LIMITED]
    has_ending = has_ending or has.ending
  end
  if item.next then
    return prepare_next(item)
  end
end

-- Reads all items. Returns the jobs that this worker may complete. Each of the others has a
-- problem, as does a job named twice.
local function read_all(items, worker)
  local seen, refused = {}, false
  for i = 1, #items do
    local item = items[i]
    local problem
    if seen[item.jid] then
      problem = new_problem('not_running', item.jid, 'is not currently running: complete')
    else
      problem = read_completed(item, worker)
    end
    if problem then
      item.problem, refused = problem, true
    elseif #items > 1 then
      seen[item.jid] = true
    end
  end
  return refused and without(items, 'problem') or items
end

-- Returns the jids of items, and the run times of the jobs.
local function columns(items)
  local ids, ran = sized(items), sized(items)
  local began, time -- of the previous item: many jobs start at the same time
  for i = 1, #items do
    local item = items[i]
    if item.began ~= began or i == 1 then
      began, time = item.began, finite(item.began, now)
    end
    ids[i], ran[i] = item.jid, now - time
  end
  return ids, ran
end

-- Returns {queue, jids, ran} for each queue, with the columns of its items.
local function columns_by_queue(items)
  local queue, several = items[1].queue, false
  for i = 2, #items do
    several = several or items[i].queue ~= queue
  end
  local groups = several and group_by_queue(items) or {items}
  for i = 1, #groups do
    local ids, times = columns(groups[i])
    groups[i] = {queue = groups[i][1].queue, jids = ids, ran = times}
  end
  return groups
end

-- Releases the locks of a queue's jobs, and adds to the queue's statistics.
local function unlock(queue, jids, ran, worker)
  if try('zrem', queue_key(queue, 'locks'), unpack(jids)) ~= #jids then
    for i = 1, #jids do
      leave_queue(queue, jids[i])
    end
  end
  try('zrem', worker_key(worker), unpack(jids))
  observe('run', queue, ran)
end

-- Reads the settings for completing jobs of one queue.
local function completing_config(queue)
  return try('hmget', prefix .. 'config', 'jobs-history', 'jobs-history-count', 'max-job-history',
    queue .. '-max-concurrency')
end

-- Reads the settings for completing: three, then the max-concurrency of each queue. A queue with a
-- max-concurrency may run another job after a completion.
local function read_config(queues)
  if not queues[2] then
    return completing_config(queues[1].queue)
  end
  local fields = {'jobs-history', 'jobs-history-count', 'max-job-history', false}
  for i = 1, #queues do
    fields[3 + i] = queues[i].queue .. '-max-concurrency'
  end
  return try('hmget', prefix .. 'config', unpack(fields))
end

-- Reports whether any job has dependents, dependents of others remain, or the key more exists.
local function any_dependents(items, more)
  if not items[2] then
    return call('exists', more, prefix .. 'x:rest', items[1].key .. '-dependents') > 0
  end
  local keys = {more, prefix .. 'x:rest', unpack(items)}
  for i = 1, #items do
    keys[i + 2] = items[i].key .. '-dependents'
  end
  return count_existing(keys) > 0
end

-- Appends the last entry to a job's history. A job that had no list may have the old kind.
local function record_done(jid, key, done, cap)
  local entries = record(key, done, cap)
  if entries == 1 then
    adopt_before(jid, try('hget', key, 'history'), done, cap)
  end
end

-- Returns the rest of a completion event, after the jid.
local function completed_event(queue)
  return ',"event":"completed","queue":' .. cjson.encode(queue) .. '}'
end

local function publish_completed(jid, rest)
  publish('log', '{"jid":' .. cjson.encode(jid) .. rest)
end

-- Publishes the completion of jobs, and releases their dependents if there may be any. The last
-- item's state tells Go that some dependents remain.
local function announce(items, special)
  local queue, rest
  for i = 1, (#items < WORTH_ASKING or is_heard()) and #items or 0 do
    local item = items[i]
    if item.queue ~= queue then
      queue = item.queue
      rest = completed_event(queue)
    end
    publish_completed(item.jid, rest)
  end
  if special and any_dependents(items, prefix .. 'x:none') then
    for i = 1, #items do
      release_dependents(items[i].jid)
    end
    local some = budget.releases < math.huge
    local _, more = settle_rest()
    if some and more then
      items[#items].state = 'complete+'
    end
  end
end

-- Completes at most a few hundred items {jid, queue, data, next, delay, depends, change [, result]
-- [, anybody]}; empty data keeps the job's data. Sets each item's state or problem.
local function complete(worker, items)
  local owned = read_all(items, worker)
  if #owned == 0 then
    return
  end
  local queues = columns_by_queue(owned)
  local config = read_config(queues)
  local seconds, count, cap = unpack(config, 1, 3)
  cap = history_cap(cap)
  -- One command checks the usual case: no tracked jobs, no dependents, and none left to release.
  local special = any_dependents(owned, prefix .. 'tracked')
  for i = 1, #queues do
    unlock(queues[i].queue, queues[i].jids, queues[i].ran, worker)
  end
  for i = 1, special and #queues or 0 do
    publish_each_tracked('completed', queues[i].jids)
  end
  local done, advanced, ending = entry(now, '"done"', nil), false, {}
  for i = 1, #owned do
    local item = owned[i]
    if item.grace then
      call('hdel', item.key, 'grace')
    end
    record_done(item.jid, item.key, done, cap)
    if item.next then
      item.state, advanced = advance(item, cap), true
    else
      item.state = 'complete'
      settle_item(item, 'complete', '')
      if has_ending and item.stored and has_any(item.stored, ENDING) then
        ending[#ending + 1] = item
      end
    end
  end
  local finished = advanced and without(owned, 'next') or owned
  if #finished > 0 then
    local kept = ending[1] and all_completed(ending) and without(finished, 'forgotten') or finished
    if #kept > 0 then
      keep_completed(kept, seconds, count)
    end
    announce(finished, special)
  end
  for i = 1, #queues do
    if finite(config[3 + i], 0) > 0 then
      wake(queues[i].queue)
    end
  end
  if frees_limits then
    stop_all_limited(owned)
  end
end
