-- Completing one job, or many at once, each with its own outcome. What they share is read and
-- written once.

-- The maximum number of old jobs that one call deletes: more would stall the server.
local PRUNED = 100

-- Deletes a job if it is complete.
local function delete_job(jid)
  local key = job_key(jid)
  local job = try('hmget', key, 'state', 'tags')
  if job[1] ~= 'complete' then
    return
  end
  remove_tags(jid, names_of(job[2]), 1)
  call('del', key, key .. '-history', key .. '-dependencies')
end

-- Deletes at most limit completed jobs: those from before a time, or the excess.
local function prune(before, excess, limit) -- cold
  local completed = prefix .. 'completed'
  local old = call('zrangebyscore', completed, 0, before, 'LIMIT', 0, limit)
  if excess > #old then
    old = call('zrange', completed, 0, math.min(excess, limit) - 1)
  end
  for i = 1, #old do
    delete_job(old[i])
  end
  each_slice(call, 'zrem', completed, old)
end

-- Whether a job of this call has limits.
local frees_limits

-- Writes what every outcome changes, the result, and the data if there is any.
local function settle_result(item, state, queue) -- cold
  local fields = {'state', state, 'queue', queue, 'time', stamp, 'worker', '', 'failure', '{}',
    'expires', '0', 'remaining', item.retries, 'x:result', result_field(state, stamp, item.result)}
  if item.data ~= '' then
    fields[#fields + 1] = 'data'
    fields[#fields + 1] = item.data
  end
  call('hset', item.key, unpack(fields))
end

-- Writes what every outcome changes, and the data if there is any.
local function settle(item, state, queue)
  local key = item.key
  if item.result then
    settle_result(item, state, queue)
  elseif item.data ~= '' then
    call('hset', key, 'state', state, 'queue', queue, 'time', stamp, 'worker', '', 'failure', '{}',
      'expires', '0', 'remaining', item.retries, 'data', item.data)
  else
    call('hset', key, 'state', state, 'queue', queue, 'time', stamp, 'worker', '', 'failure', '{}',
      'expires', '0', 'remaining', item.retries)
  end
end

local function read_changes(area, given) -- cold
  read_policy(area, given.o)
  return {
    priority = given.priority and number(area, 'priority', given.priority),
    retries = given.retries and number(area, 'retries', given.retries),
    tags = given.tags and names(area, 'tags', given.tags),
    o = given.o and read_options(area, given.o),
    drop = given.drop,
  }
end

-- What the options change in a job that goes on to another queue, or nil.
local function read_change(area, given)
  if given.priority or given.retries or given.tags or given.o or given.drop then
    return read_changes(area, given)
  end
end

-- Writes these changes.
local function write_change(item, change) -- cold
  call('hset', item.key, 'priority', item.priority or '0', 'retries', item.retries)
  if change.tags then
    remove_tags(item.jid, difference(change.old_tags, change.tags, 1), 1)
    add_tags(item.jid, change.tags, 1)
    call('hset', item.key, 'tags', array(change.tags))
  end
  if change.o or change.drop then
    write_options(item.key, call('hget', item.key, 'x:o'), change) -- others may wait for it by now
  end
end

-- Publishes that a job goes on to its next queue. See docs/wake.md for the mark.
local function publish_advance(item, woken) -- cold
  if woken or not classic then
    publish('log', '{"queue":' .. cjson.encode(item.queue) .. ',"to":' .. cjson.encode(item.next) ..
      ',"event":"advanced","jid":' .. cjson.encode(item.jid) .. '}')
  else
    publish('log', cjson.encode({
      jid = item.jid, event = 'advanced', queue = item.queue, to = item.next,
    }))
  end
end

-- Puts a job into its next queue. Returns its state there.
local function advance(item, cap) -- cold
  local jid, queue, delay, part = item.jid, item.next, item.delay, item.part
  record(item.key, entry(now, '"put"', cjson.encode({q = queue})), cap)
  know_queue(queue)
  if item.change then
    write_change(item, item.change)
  end
  if item.result then
    mark_result(item.key)
  end
  if item.stored and has_lifetime(item.stored) then
    renew_life(jid)
  end
  if part == 'depends' then
    settle(item, 'depends', queue)
    call('zadd', queue_key(queue, 'depends'), stamp, jid)
    keep_delay(item.key, delay, item.checked)
    publish_advance(item)
    local stored = item.change and item.change.o or item.stored
    if stored and (has_option(stored, 'f') or item.stored and has_option(item.stored, 'f')) then
      watch(jid, job_ended)
      return call('hget', item.key, 'state')
    end
    return 'depends'
  end
  local state = 'waiting'
  if part == 'scheduled' then
    state = 'scheduled'
    call('zadd', queue_key(queue, 'scheduled'), exact(now + delay), jid)
  else
    call('zadd', queue_key(queue, 'work'), score_of(queue, item.priority, item.stored, {}), jid)
  end
  settle(item, state, queue)
  note_filled(queue)
  publish_advance(item, wake_for(queue, delay))
  return state
end

-- Reads where a job goes next, and links it to its dependencies. Returns why that is impossible, or
-- nil.
local function prepare_next(item) -- cold
  local others, problem = needed(item.jid, item.depends, 1, {})
  if problem then
    return problem
  end
  item.priority = call('hget', item.key, 'priority')
  local change = item.change
  if change then
    item.priority, item.retries = change.priority or item.priority, change.retries or item.retries
    change.old_tags = change.tags and names_of(call('hget', item.key, 'tags'))
  end
  item.part = 'work'
  if #others > 0 then
    item.part = 'depends'
  elseif item.delay > 0 and #item.depends == 0 then
    item.part = 'scheduled'
  end
  local size = try('zcard', queue_key(item.next, item.part))
  if type(size) == 'table' then
    return size.err
  elseif #others > 0 then
    must_write() -- needs no memory, so that a server that is out of memory accepts the next write
    local failed = link(item.jid, others, {})
    return failed and failed.err
  end
end

-- Reads a job and checks that this worker may complete it, or that item.anybody is set. Returns why
-- not, or nil.
local function read_completed(item, worker)
  local jid = item.jid
  local key = job_key(jid)
  local job = try('hmget', key, 'worker', 'state', 'retries', 'queue', 'time', 'grace', 'x:o')
  local refusal = job.err
  if not refusal and not item.anybody then
    refusal = not_owned('Complete', jid, job[1], job[2], worker, job[5], item.since)
  end
  if refusal then
    return refusal
  elseif item.queue ~= job[4] then
    return 'Job ' .. jid .. ' running in another queue: ' .. tostring(job[4])
  end
  item.key, item.retries, item.began = key, job[3] or DEFAULT_RETRIES, job[5]
  if item.anybody and job[2] ~= 'running' then
    item.began = stamp -- it did not run
  end
  if job[6] or job[7] then
    item.grace, item.stored = job[6], job[7]
    frees_limits = frees_limits or job[7] and string.find(job[7], '^%a*c') ~= nil
  end
  if item.next then
    return prepare_next(item)
  end
end

-- Reads all items. Returns those that this worker may complete; the others get a problem, as does a
-- job that is named twice.
local function read_all(items, worker)
  local mine, seen = items, {}
  for i = 1, #items do
    local item = items[i]
    local problem
    if seen[item.jid] then
      problem = 'Job ' .. item.jid .. ' is not currently running: complete'
    else
      problem = read_completed(item, worker)
    end
    if problem then
      item.problem = problem
      if mine == items then
        mine = {unpack(items, 1, i - 1)}
      end
    elseif mine ~= items then
      mine[#mine + 1] = item
    end
    if not problem and #items > 1 then
      seen[item.jid] = true
    end
  end
  return mine
end

-- The jids of items, and how long the jobs ran.
local function columns(items)
  local ids, ran = sized(items), sized(items)
  local began, time -- of the item before: many were taken at the same time
  for i = 1, #items do
    local item = items[i]
    if item.began ~= began or i == 1 then
      began, time = item.began, finite(item.began, now)
    end
    ids[i], ran[i] = item.jid, now - time
  end
  return ids, ran
end

-- Groups items by queue: {queue, items} for each.
local function items_by_queue(items)
  local groups, found = {{queue = items[1].queue, items = items, jids = none, ran = none}}, nil
  for i = 2, #items do
    local queue = items[i].queue
    if not found and queue ~= groups[1].queue then
      groups[1].items = {unpack(items, 1, i - 1)}
      found = {[groups[1].queue] = groups[1]}
    end
    if found then
      local its = found[queue]
      if not its then
        its = {queue = queue, items = {}}
        found[queue] = its
        groups[#groups + 1] = its
      end
      its.items[#its.items + 1] = items[i]
    end
  end
  for i = 1, #groups do
    local jids, durations = columns(groups[i].items)
    groups[i].jids, groups[i].ran = jids, durations
  end
  return groups
end

-- Releases the locks of a queue's jobs, and adds to its statistics.
local function unlock(queue, jids, ran, worker)
  if try('zrem', queue_key(queue, 'locks'), unpack(jids)) ~= #jids then
    for i = 1, #jids do
      leave_queue(queue, jids[i])
    end
  end
  try('zrem', worker_key(worker), unpack(jids))
  observe('run', queue, ran)
end

-- The settings for completing: three, then the max-concurrency of each queue. A queue that has one
-- may run another job when one is complete.
local function read_config(queues)
  local fields = {'jobs-history', 'jobs-history-count', 'max-job-history', false}
  for i = 1, #queues do
    fields[3 + i] = queues[i].queue .. '-max-concurrency'
  end
  return try('hmget', prefix .. 'config', unpack(fields))
end

-- Keeps the jobs that are complete for good, and deletes old ones.
local function keep_completed(items, keep_seconds, keep_count)
  local completed, scored = prefix .. 'completed', {stamp, items[1].jid, unpack(items, 3)}
  for i = 2, #items do
    scored[2 * i - 1], scored[2 * i] = stamp, items[i].jid
  end
  if type(try('zadd', completed, unpack(scored))) == 'table' then
    return
  end
  local before = later(-keep_seconds)
  local excess = call('zcard', completed) - keep_count
  if excess > 0 or call('zcount', completed, '0', before) > 0 then
    prune(before, excess, PRUNED + #items)
  end
end

-- Those of the items whose jobs were not deleted.
local function remembered(items) -- cold
  local kept = {}
  for i = 1, #items do
    if not items[i].forgotten then
      kept[#kept + 1] = items[i]
    end
  end
  return kept
end

-- Whether any of the jobs has dependents, other jobs have some left, or the key more exists.
local function any_dependents(items, more)
  local keys = {more, prefix .. 'x:rest', unpack(items)}
  for i = 1, #items do
    keys[i + 2] = items[i].key .. '-dependents'
  end
  return count_existing(keys) > 0
end

-- Publishes that jobs are complete for good, and releases their dependents if they may have some. The
-- last item's state tells Go that some are left.
local function announce(items, special)
  local queue, suffix
  for i = 1, #items do
    local item = items[i]
    if item.queue ~= queue then
      queue = item.queue
      suffix = ',"event":"completed","queue":' .. cjson.encode(queue) .. '}'
    end
    publish('log', '{"jid":' .. cjson.encode(item.jid) .. suffix)
  end
  if special and any_dependents(items, prefix .. 'x:none') then
    for i = 1, #items do
      release_dependents(items[i].jid)
    end
    local some = releasable < math.huge
    local _, more = settle_rest()
    if some and more then
      items[#items].state = 'complete+'
    end
  end
end

-- Completes at most a few hundred items {jid, queue, data, next, delay, depends, change [, result]
-- [, anybody]}; empty data leaves the job's data unchanged. Sets each item's state or problem.
local function complete(worker, items)
  local owned = read_all(items, worker)
  if #owned == 0 then
    return
  end
  local queues = items_by_queue(owned)
  local config = read_config(queues)
  local cap = history_cap(config[3])
  -- Most jobs have no dependents, none is tracked, and none waits to be released: one command finds
  -- that out.
  local special = any_dependents(owned, prefix .. 'tracked')
  for i = 1, #queues do
    unlock(queues[i].queue, queues[i].jids, queues[i].ran, worker)
  end
  for i = 1, special and #queues or 0 do
    publish_each_tracked('completed', queues[i].jids)
  end
  local done, finished, forgetting = entry(now, '"done"', nil), owned, false
  for i = 1, #owned do
    local item = owned[i]
    if item.grace then
      call('hdel', item.key, 'grace')
    end
    -- A job without a list may have a history of the old kind.
    local entries = record(item.key, done, cap)
    if entries == 1 then
      adopt_before(item.jid, try('hget', item.key, 'history'), done, cap)
    end
    if item.next then
      item.state = advance(item, cap)
      if finished == owned then
        finished = {unpack(owned, 1, i - 1)}
      end
    else
      item.state = 'complete'
      settle(item, 'complete', '')
      if item.stored and string.find(item.stored, '^%a*[kruw]') and
        job_ended(item.jid, item.stored, 'complete') then
        delete_job(item.jid)
        item.forgotten, forgetting = true, true
      end
      if finished ~= owned then
        finished[#finished + 1] = item
      end
    end
  end
  if #finished > 0 then
    local kept = forgetting and remembered(finished) or finished
    if #kept > 0 then
      keep_completed(kept, finite(config[1], DEFAULT_JOBS_HISTORY),
        finite(config[2], DEFAULT_JOBS_HISTORY_COUNT))
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
