-- subscription: the patterns by which queues subscribe to topics. Clients in PHP match them.
--
-- Args     queue, 'add', 'remove' or 'exists', topic / queue, 'get' / queue, 'all'
-- Returns  JSON. add: the queue's name, once for each of its patterns; remove, exists: whether the
--          queue had this pattern; get: an array of the key of the queue's patterns, or an empty
--          one; all: the queues of each pattern, among the queues subscribed by this script and all
--          queues that ever had a job
-- Errors   Subscription()
-- Cost     3 commands; all: 2, and 1 for each queue
-- For      PHP
-- Repeat   safe

local queue = required('Subscription', 'queue', ARGV[3])
local action = required('Subscription', 'action', ARGV[4])

local function topics_key(name)
  return prefix .. 'topics' .. name
end

local key = topics_key(queue)

if action == 'all' then
  local by_topic, all = {}, call('smembers', prefix .. 'x:topics')
  union(all, call('zrange', prefix .. 'queues', 0, -1), 1)
  table.sort(all)
  for _, name in ipairs(all) do
    for _, topic in ipairs(try('hkeys', topics_key(name))) do
      by_topic[topic] = by_topic[topic] or {}
      table.insert(by_topic[topic], name)
    end
  end
  return cjson.encode(by_topic)
elseif action == 'get' then
  return array(call('exists', key) == 1 and {key} or {})
end

local topic = required('Subscription', 'topic', ARGV[5])
if action == 'add' then
  call('hset', key, topic, queue)
  try('sadd', prefix .. 'x:topics', queue)
  local topics = call('hkeys', key)
  for i = 1, #topics do
    topics[i] = queue
  end
  return array(topics)
elseif action == 'remove' then
  local removed = call('hdel', key, topic) == 1
  if removed and call('exists', key) == 0 then
    try('srem', prefix .. 'x:topics', queue)
  end
  return tostring(removed)
elseif action == 'exists' then
  return tostring(call('hexists', key, topic) == 1)
end
reject('Subscription', 'Unknown action "' .. action .. '"')
