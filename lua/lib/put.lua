-- Putting jobs into queues: one, or many at once. What they share is written once.
--
-- All that can fail is read before the first write. Where jobs go into one set only, and wait for
-- nothing, adding them to it is the first write, and needs no look before.

-- @include "lib/clock.lua"
-- @include "lib/bulk.lua"
-- @include "lib/check.lua"
-- @include "lib/json.lua"
-- @include "lib/events.lua"
-- @include "lib/history.lua"
-- @include "lib/tags.lua"
-- @include "lib/deps.lua"
-- @include "lib/work.lua"
-- @include "lib/failures.lua"
-- @include "lib/wake.lua"

-- Reads a job that exists, which is to be written anew: what the item does not say stays as it
-- was.
local function read_old(item) -- cold
  local key, depends = item.key, item.depends
  local fields = call('hmget', key, 'priority', 'tags', 'queue', 'state', 'failure', 'retries', 'worker',
    'history', 'grace')
  item.old = {
    tags = names_of(fields[2]), queue = fields[3], state = fields[4], failure = fields[5],
    worker = fields[7], history = fields[8], grace = fields[9], ended = none,
  }
  item.priority = item.priority or fields[1]
  item.tags = item.tags or item.old.tags
  item.retries = item.retries or fields[6]
  if #depends == 0 then
    item.waits = call('scard', key .. '-dependencies') > 0
    return
  end
  local before = call('smembers', key .. '-dependencies')
  item.old.ended = without_tags(before, depends, 1)
  item.waits = #item.old.ended < #before
end

-- The part of its queue that a job goes into.
local function part_of(item)
  if item.waits then
    return 'depends'
  end
  return item.delay > 0 and 'scheduled' or 'work'
end

-- Reads all that is needed to write the jobs of each queue, and what they may wait for. Returns
-- the sets that they go into, and whether these are all that the first write depends on.
local function read_puts(groups, some_exist, coming)
  local sets, listed, alone = {}, {}, not some_exist
  for g = 1, #groups do
    local group = groups[g]
    for i = 1, #group.items do
      local item = group.items[i]
      if some_exist and call('exists', item.key) == 1 then
        read_old(item)
      end
      if #item.depends > 0 then
        local problem
        item.others, problem = needed(item.jid, item.depends, 1, coming)
        if problem then
          reject('Put', problem)
        end
        item.waits = item.waits or #item.others > 0
        alone = false
      end
      local part = part_of(item)
      local set = queue_key(group.queue, part)
      if not listed[set] then
        listed[set] = true
        sets[#sets + 1] = set
      end
      item.part = part
    end
  end
  return sets, alone and #sets == 1
end

-- Makes jobs wait for others: all of them, or none.
local function link_all(groups) -- cold
  local added = {}
  for g = 1, #groups do
    for _, item in ipairs(groups[g].items) do
      local failed = item.others and link(item.jid, item.others, added)
      if failed then
        call('sadd', failed.key, failed.member) -- the same error, for the caller
      end
    end
  end
end

-- Takes a job that exists out of everything that its old state put it into.
local function leave(item, worker) -- cold
  local jid, old = item.jid, item.old
  local queue, owner = old.queue, old.worker
  adopt_history(jid, old.history)
  if queue then
    leave_queue(queue, jid)
  end
  if owner and owner ~= '' then
    try('zrem', worker_key(owner), jid)
    if owner ~= worker then
      lock_lost(jid, owner)
    end
    if old.state == 'running' and queue then
      wake_for_slot(queue)
    end
  end
  if old.state == 'complete' then
    try('zrem', prefix .. 'completed', jid)
  elseif old.state == 'failed' then
    forget_failure(jid, queue, old.failure)
  end
  if old.grace then
    call('hdel', item.key, 'grace')
  end
  remove_tags(jid, without_tags(old.tags, item.tags, 1), 1)
  for _, other in ipairs(old.ended) do
    undepend(jid, other)
  end
end

-- The score at which a job waits, n others of the same call being before it. They are popped in
-- their order: a microsecond apart, or as far as a score that is as high as theirs can tell.
local function score_of(item, n)
  local priority = finite(item.priority, 0)
  local apart = 0.000001
  if n > 0 and priority ~= 0 then
    local _, exponent = math.frexp(priority)
    apart = math.max(apart, 2 ^ (exponent - 52) * 10000000000)
  end
  return work_score(now + n * apart, priority)
end

-- Adds the jobs of a queue to the sets that they go into.
local function place_all(group)
  local work, scheduled, depends, items = {}, {}, {}, group.items
  for i = 1, #items do
    local item = items[i]
    local part = item.part
    if part == 'work' then
      local n = #work
      work[n + 1], work[n + 2] = score_of(item, n / 2), item.jid
    elseif part == 'scheduled' then
      local n = #scheduled
      scheduled[n + 1], scheduled[n + 2] = exact(now + item.delay), item.jid
    else
      local n = #depends
      depends[n + 1], depends[n + 2] = stamp, item.jid
    end
  end
  each_slice(call, 'zadd', queue_key(group.queue, 'work'), work)
  each_slice(call, 'zadd', queue_key(group.queue, 'scheduled'), scheduled)
  each_slice(call, 'zadd', queue_key(group.queue, 'depends'), depends)
end

-- Writes one job, and text into its history.
local function write_job(queue, item, text)
  local key, tags, retries = item.key, item.tags or none, item.retries or '5'
  local stored_tags = '[]'
  record(key, text)
  if #tags > 0 then
    add_tags(item.jid, tags, 1)
    stored_tags = cjson.encode(tags)
  end
  call('hset', key,
    'jid', item.jid,
    'klass', item.klass,
    'data', item.data,
    'priority', item.priority or '0',
    'tags', stored_tags,
    'state', item.part == 'work' and 'waiting' or item.part,
    'worker', '',
    'expires', '0',
    'queue', queue,
    'retries', retries,
    'remaining', retries,
    'time', stamp)
  if item.waits then
    keep_delay(key, item.delay, item.checked)
  end
end

-- Writes the jobs of a queue, and tells of them. One of the idle workers, if there are any, is
-- woken.
local function write_all(group, idle)
  local queue, items = group.queue, group.items
  local quoted = cjson.encode(queue)
  local text = entry(now, 'put', '{"q":' .. quoted .. '}')
  local told = ',"event":"put","queue":' .. quoted .. '}' .. READY
  local jids, soonest = {}, math.huge
  for i = 1, #items do
    local item = items[i]
    write_job(queue, item, text)
    publish('log', '{"jid":' .. cjson.encode(item.jid) .. told)
    jids[i] = item.jid
    soonest = math.min(soonest, item.delay)
  end
  know_queue(queue)
  publish_each_tracked('put', jids)
  if idle then
    wake_for(queue, soonest)
  end
end

-- Leaves what the jobs that exist have been in.
local function leave_all(groups, worker) -- cold
  for g = 1, #groups do
    for _, item in ipairs(groups[g].items) do
      if item.old then
        leave(item, worker)
      end
    end
  end
end

-- Puts jobs into queues, {queue, items} each, all or none of them: an item is
-- {jid, klass, data, delay, depends [, priority] [, retries] [, tags]}.
local function put(worker, groups)
  must_publish()
  local keys, coming = {}, {}
  for g = 1, #groups do
    local items = groups[g].items
    for i = 1, #items do
      local item = items[i]
      item.key = job_key(item.jid)
      keys[#keys + 1] = item.key
      coming[item.jid] = 'coming'
    end
  end
  -- One question tells of the jobs and of the idle workers: for most puts there is neither.
  keys[#keys + 1] = prefix .. 'x:idle'
  local existing = count_existing(keys)
  local idle = existing > 0 and call('exists', prefix .. 'x:idle') == 1
  local some_exist = existing > (idle and 1 or 0)

  local sets, alone = read_puts(groups, some_exist, coming)
  if not alone then
    for i = 1, #sets do
      call('zcard', sets[i])
    end
    link_all(groups)
    leave_all(groups, worker)
  end
  for g = 1, #groups do
    place_all(groups[g])
  end
  for g = 1, #groups do
    write_all(groups[g], idle)
  end
end

-- The job whose arguments begin at ARGV[at], with pairs of options from first to last. A
-- caller that has checked the data says so by the option "checked": for the server, reading
-- it is the most expensive part of putting a large job.
local function read_put(at, first, last)
  local klass, data = ARGV[at + 1], ARGV[at + 2]
  if not klass then
    reject('Put', 'Arg "klass" missing')
  end
  local given = options('Put', first, last)
  if not given.checked then
    json('Put', 'data', data)
  end
  local delay = number('Put', 'delay', ARGV[at + 3])
  return {
    jid = named('Put', 'jid', ARGV[at]),
    klass = klass,
    data = data,
    delay = delay,
    checked = given.checked,
    depends = check_dependencies('Put', names('Put', 'depends', given.depends), 1),
    priority = given.priority and number('Put', 'priority', given.priority),
    retries = given.retries and number('Put', 'retries', given.retries),
    tags = given.tags and names('Put', 'tags', given.tags),
  }
end

-- put and requeue, whose arguments are the same.
local function put_from_arguments()
  local queue = named('Queue', 'queue', ARGV[3])
  local item = read_put(4, 8, #ARGV)
  put(ARGV[2], {{queue = queue, items = {item}}})
  return item.jid
end
