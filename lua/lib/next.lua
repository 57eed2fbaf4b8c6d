-- Moving completed jobs to another queue, with changes.

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

-- Reads the changes for a job that moves to another queue, or nil.
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
    local stored = call('hget', item.key, 'x:o') -- others may wait for it now
    write_options(item.key, merge_options(stored, change))
  end
end

-- Publishes a job's move to its next queue. For the mark, see docs/internals/wake-ups.md.
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
  if item.result then -- for the job's end, unless replaced
    call('hset', item.key, 'x:o', with_letter(call('hget', item.key, 'x:o'), HAS_RESULT))
  end
  if item.stored and has_lifetime(item.stored) then
    renew_life(jid)
  end
  if part == 'depends' then
    settle_item(item, 'depends', queue)
    call('zadd', queue_key(queue, 'depends'), stamp, jid)
    keep_delay(item.key, delay, item.checked)
    publish_advance(item)
    local stored = item.change and item.change.o or item.stored
    if stored and (has_option(stored, POLICY) or
      item.stored and has_option(item.stored, POLICY)) then
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
  settle_item(item, state, queue)
  note_filled(queue)
  publish_advance(item, wake_for(queue, delay))
  return state
end

-- Reads a job's next place, and links the job to its dependencies. Returns the problem, or nil.
local function prepare_next(item) -- cold
  local others, problem = needed(item.jid, item.depends, 1, {})
  problem = problem or item.checked and circle_of(item.jid, others)
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
    return size
  elseif #others > 0 then
    must_write() -- needs no memory, so a server that is out of memory accepts the next write
    return link(item.jid, others, {})
  end
end
