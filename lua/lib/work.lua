-- A queue's waiting jobs, by priority, then age.

local function work_score(at, priority)
  return finite(priority, 0) - at / 10000000000
end

-- Groups jobs by queue, in the order in which the queues first occur.
local function group_by_queue(items) -- cold
  local groups, found = {}, {}
  for i = 1, #items do
    local item = items[i]
    local group = found[item.queue]
    if not group then
      group = {}
      found[item.queue], groups[#groups + 1] = group, group
    end
    group[#group + 1] = item
  end
  return groups
end

-- Returns the items without a field.
local function without(items, field) -- cold
  local found = {}
  for i = 1, #items do
    if not items[i][field] then
      found[#found + 1] = items[i]
    end
  end
  return found
end

local function jids_of(items) -- cold
  local jids = {}
  for i = 1, #items do
    jids[i] = items[i].jid
  end
  return jids
end

-- Removes a job from all parts of its queue.
local function leave_queue(queue, jid)
  try('zrem', queue_key(queue, 'work'), jid)
  try('zrem', queue_key(queue, 'locks'), jid)
  try('zrem', queue_key(queue, 'scheduled'), jid)
  try('zrem', queue_key(queue, 'depends'), jid)
end

-- Whether this call has added jobs to a queue that may have been empty.
local has_filled

-- Must be called when jobs were added to a queue that may have been empty: reserves skip the queues
-- in x:empty. known means x:empty exists.
local function note_filled(queue, known)
  has_filled = true
  if (known or call('exists', prefix .. 'x:empty') == 1)
    and try('sadd', prefix .. 'x:filled', queue) == 1 then
    call('expire', prefix .. 'x:filled', 1)
  end
end

-- Reports whether any job in a part of a queue is due. Counting is the cheapest check.
local function is_due(queue, part)
  return call('zcount', queue_key(queue, part), '-inf', stamp) > 0
end

-- Records the order in which queues are first seen, and publishes new queues.
local function know_queue(queue)
  local queues = prefix .. 'queues'
  -- Checking first is cheaper: ZADD would parse the time.
  if not try('zrank', queues, queue) and try('zadd', queues, 'NX', stamp, queue) == 1 then
    try('zrem', prefix .. 'x:queues', queue)
    publish_ours('x:queues', queue)
  end
end

-- Like know_queue, for a command that does not list the queue for classic clients.
local function know_unlisted(queue) -- cold
  local listed = try('zscore', prefix .. 'queues', queue)
  if not listed and try('zadd', prefix .. 'x:queues', 'NX', stamp, queue) == 1 then
    publish_ours('x:queues', queue)
  end
end
