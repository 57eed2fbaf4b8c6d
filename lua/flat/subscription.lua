-- subscription: patterns of topics that queues subscribe to. Clients in PHP match them.
--
-- KEYS[1]  the namespace prefix
-- ARGV     NOW, queue, 'add', 'remove' or 'exists', topic / queue, 'get' / queue, 'all'
-- Returns  JSON. add: the queue's name, once for each of its patterns; remove, exists: whether the
--          queue had this pattern; get: the key of the queue's patterns, in an array, which is
--          empty when there are none; all: the queues of each pattern. That finds the queues that
--          subscribed by this script, and those that ever had a job
-- Errors   Subscription()
-- Cost     3 commands; all: 2, and 1 for each queue
-- Repeat   safe
-- Needs    exists hdel hexists hkeys hset sadd smembers srem zrange

local call = redis.call
local prefix = KEYS[1]
local try = redis.pcall






local queue
do
  local area, name, text = 'Subscription', 'queue', ARGV[2]
  if not text then
    local words = {
      Job = 'no jid provided', Recurring = 'no jid provided', Queue = 'no queue name provided',
    }
    do
      local area, message = area, words[area] or 'Arg "' .. name .. '" missing'
      error(area .. '(): ' .. message)
    end
  end
  queue = text
end
local action
do
  local area, name, text = 'Subscription', 'action', ARGV[3]
  if not text then
    local words = {
      Job = 'no jid provided', Recurring = 'no jid provided', Queue = 'no queue name provided',
    }
    do
      local area, message = area, words[area] or 'Arg "' .. name .. '" missing'
      error(area .. '(): ' .. message)
    end
  end
  action = text
end
local key = prefix .. 'topics' .. queue
local function subscribers()
  local all = call('smembers', prefix .. 'x:topics')
  do
    local list, more, first = all, call('zrange', prefix .. 'queues', 0, -1), 1
    local has = {}
    for i = 1, #list do
      has[list[i]] = true
    end
    for i = first, #more do
      if not has[more[i]] then
        has[more[i]] = true
        list[#list + 1] = more[i]
      end
    end
  end
  table.sort(all)
  return all
end
local function all_topics()
  local queues_of = {}
  for _, name in ipairs(subscribers()) do
    for _, topic in ipairs(try('hkeys', prefix .. 'topics' .. name)) do
      queues_of[topic] = queues_of[topic] or {}
      table.insert(queues_of[topic], name)
    end
  end
  return queues_of
end
if action == 'all' then
  return cjson.encode(all_topics())
elseif action == 'get' then
  do
    local list = call('exists', key) == 1 and {key} or {}
    if #list == 0 then
      return '[]'
    end
    return cjson.encode(list)
  end
end
local topic
do
  local area, name, text = 'Subscription', 'topic', ARGV[4]
  if not text then
    local words = {
      Job = 'no jid provided', Recurring = 'no jid provided', Queue = 'no queue name provided',
    }
    do
      local area, message = area, words[area] or 'Arg "' .. name .. '" missing'
      error(area .. '(): ' .. message)
    end
  end
  topic = text
end
if action == 'add' then
  call('hset', key, topic, queue)
  try('sadd', prefix .. 'x:topics', queue)
  local topics = call('hkeys', key)
  for i = 1, #topics do
    topics[i] = queue
  end
  do
    local list = topics
    if #list == 0 then
      return '[]'
    end
    return cjson.encode(list)
  end
elseif action == 'remove' then
  local removed = call('hdel', key, topic) == 1
  if removed and call('exists', key) == 0 then
    try('srem', prefix .. 'x:topics', queue)
  end
  return tostring(removed)
elseif action == 'exists' then
  return tostring(call('hexists', key, topic) == 1)
end
do
  local area, message = 'Subscription', 'Unknown action "' .. action .. '"'
  error(area .. '(): ' .. message)
end

