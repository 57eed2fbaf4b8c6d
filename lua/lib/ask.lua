-- ask is a table with the request of a worker, and the findings of a call of reserve:
--
--   worker    the worker that asks
--   owner     the worker that gets the jobs, usually the same
--   lock_time the seconds for which they are locked, if other than the queue's time
--   queues    their names
--   list      the same as one text
--   order     'ordered', 'round-robin', 'shuffled' or 'weighted'
--   cursor    the queue that comes first, or a random number
--   weights   the weight of each queue, by its number, in a weighted order
--   count     the number of jobs that it asks for
--   ahead     the number of jobs that it also takes if no other worker waits for them
--   limit     the maximum number of jobs that it gets
--   poll      the time in seconds after which it asks again
--   polls     whether it asks because this time is over, not because it was woken
--   claim     the queue whose next due job it waits for, or ''
--
--   brief     whether it was woken, and need not report that it runs, nor count the listeners
--
--   others    whether there are idle workers
--   tracked   whether a single queue may have recurring, scheduled or tracked jobs
--   quiet     whether a single queue has neither these nor locks, is not paused, and nothing in it
--             falls due soon
--   paused    1 for each queue that is paused, by its number
--   settings  the settings of the opened queues, by their numbers
--   known     the empty queues among several: lib/known.lua
--   first     the jids of its best jobs, if they were read before anything was written
--   left      whether jobs remain that can be taken at once

-- Several queues, and their names as one text.
local function read_many(first) -- cold
  if #ARGV < first or #ARGV - first >= 1000 then
    reject('Reserve', 'Arg "queue": needs 1 to 1000')
  end
  local queues = {unpack(ARGV, first)}
  local list = table.concat(queues, '\0')
  -- Checking each name would be expensive.
  if queues[1] == '' or queues[#queues] == '' or string.find(list, '\0\0', 1, true) then
    for i = 1, #queues do
      named('Reserve', 'queue', queues[i])
    end
  end
  return queues, list
end

local function read_queues(first)
  if first == #ARGV then
    return {named('Reserve', 'queue', ARGV[first])}, ARGV[first]
  end
  return read_many(first)
end

-- The weights of count queues.
local function read_weights(text, count) -- cold
  local weights = {}
  for word in string.gmatch(text, '%S+') do
    weights[#weights + 1] = number('Reserve', 'weights', word)
    if weights[#weights] <= 0 then
      reject('Reserve', 'Arg "weights" not positive: ' .. word)
    end
  end
  if #weights ~= count then
    reject('Reserve', 'Arg "weights" has ' .. #weights .. ' for ' .. count .. ' queues')
  end
  return weights
end

-- The order of the arguments' pairs does not matter.
local function read_ask(worker)
  local count, poll = whole('Reserve', 'count', ARGV[4]), number('Reserve', 'poll', ARGV[5])
  local last = 6 + whole('Reserve', 'n', ARGV[6])
  local given = options('Reserve', 7, last)
  local queues, list = read_queues(last + 1)
  local order, seconds = given.order or 'ordered', false
  if order ~= 'ordered' and order ~= 'round-robin' and order ~= 'shuffled'
    and order ~= 'weighted' then
    reject('Reserve', 'Unknown order "' .. order .. '"')
  end
  if given.lock then
    seconds = number('Reserve', 'lock', given.lock)
    if seconds < 0 then
      reject('Reserve', 'Arg "lock" is negative: ' .. given.lock)
    end
  end
  return {
    worker = worker,
    owner = given.owner and named('Reserve', 'owner', given.owner) or worker,
    lock_time = seconds,
    queues = queues,
    list = list,
    order = order,
    weights = order == 'weighted' and read_weights(given.weights or '', #queues),
    cursor = given.cursor and whole('Reserve', 'cursor', given.cursor) or 0,
    count = count,
    ahead = given.ahead and whole('Reserve', 'ahead', given.ahead) or 0,
    limit = 0,
    poll = poll,
    polls = given.polls == '1',
    brief = given.brief == '1',
    claim = given.claim or '',
    others = false,
    tracked = false,
    quiet = false,
    first = false,
    paused = none,
    settings = {},
    known = #queues > 1 and new_known(queues),
    left = false,
  }
end

-- Checks for rare states: paused queues, idle workers, and in a single queue, anything besides
-- work. Usually, one command finds none, or a second one finds only idle workers or locks.
local function look_around(ask)
  local idle, paused, unrelayed = idle_key(), prefix .. 'paused_queues', unrelayed_key()
  if ask.known then
    ask.others = call('exists', idle) == 1
    ask.brief = ask.brief and call('exists', unrelayed) == 0
    if (#ask.queues > FEW_QUEUES or not ask.others) and call('exists', paused) == 0 then
      return
    end
  else
    local queue = ask.queues[1]
    local locks = queue_key(queue, 'locks')
    local found = call('exists', paused, idle, prefix .. 'tracked', queue_key(queue, 'recur'),
      queue_key(queue, 'scheduled'), locks, unrelayed)
    if found == 0 then
      ask.quiet = true
      return
    end
    local common = call('exists', locks, idle, idle) -- counts idle workers twice
    ask.others = common > 1
    ask.quiet = common == 2 and found == 1
    if found == common - (ask.others and 1 or 0) then
      return
    end
    ask.brief = ask.brief and call('exists', unrelayed) == 0
    ask.tracked = true
  end
  ask.paused = call('smismember', paused, unpack(ask.queues))
end

-- Whether there may be more jobs than the worker has slots for.
local function is_more(ask)
  return not ask.first or #ask.first > ask.count
end

-- Whether a single queue is still quiet after jobs were taken: none of them has options or a lock
-- that ends before the worker asks again.
local function stays_quiet(ask, out)
  local its = ask.settings[1]
  if not its then
    return true
  end
  for i = 1, #out do
    if type(out[i]) ~= 'string' then
      return false
    end
  end
  return dropped == 0 and not its.parked and not its.max_rate and not ask.lock_time
    and its.heartbeat > ask.poll
end
