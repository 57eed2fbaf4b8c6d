-- ask is a table with a worker's request, and the findings of a call of reserve:
--
--   worker    the worker that asks
--   owner     the worker that the jobs are locked for, usually the same
--   lock_time the lock time in seconds, if other than the queue's
--   queues    the names of the queues
--   list      the same as one text
--   order     'ordered', 'round-robin', 'shuffled' or 'weighted'
--   cursor    the queue that comes first, or a random number
--   sums      in a weighted order, the sum of the weights up to each queue, by number
--   owed      in a weighted order, the queues that the last call owes a turn, by number
--   count     the number of jobs wanted
--   ahead     the number of jobs to prefetch if no other worker waits for them
--   limit     the maximum number of jobs to return
--   poll      the time in seconds until the worker's next poll
--   polls     whether this is a poll, not a call after a wake-up
--   claim     the queue whose next due job the worker waits for, or ''
--
--   brief     whether the worker was woken, and need not report that it runs, nor count listeners
--
--   others    whether there are idle workers
--   tracked   whether a single queue may have recurring, scheduled or tracked jobs
--   quiet     whether a single queue is quiet: see lib/quiet.lua
--   paused    1 for each paused queue, by number
--   settings  the settings of the opened queues, by number
--   known     the empty queues among several: see lib/known.lua
--   first     the jids of the best jobs, if they were read before the first write
--   left      whether there may be more jobs that the worker could take at once. A worker with free
--             slots then asks again instead of becoming idle
--   handled   whether due jobs were handled: there may be more
--   kept      whether this call left jobs waiting only because of their limits, or because of their
--             queue's max-concurrency or max-rate

-- Reads several queues. Returns the names, also as one text: names may contain any separator.
local function read_many(first) -- cold
  if #ARGV < first or #ARGV - first >= 1000 then
    reject('Reserve', 'Arg "queue": needs 1 to 1000')
  end
  local queues = {unpack(ARGV, first)}
  local list = cjson.encode(queues)
  -- Checking each name would be expensive.
  if string.find(list, '""', 1, true) then
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

-- Reads the weights of count queues, usual ones as JSON for speed. Returns the sums.
local function read_weights(text, count) -- cold
  local ok, sums = pcall(cjson.decode, '[' .. string.gsub(text, ' ', ',') .. ']')
  if not ok or string.find(text, '[^%d. ]') then
    sums = {}
    for word in string.gmatch(text, '%S+') do
      sums[#sums + 1] = number('Reserve', 'weights', word)
    end
  end
  local sum = 0
  for i = 1, #sums do
    if sums[i] <= 0 then
      reject('Reserve', 'Arg "weights" not positive: ' .. sums[i])
    end
    sum = sum + sums[i]
    sums[i] = sum
  end
  if #sums ~= count then
    reject('Reserve', 'Arg "weights" has ' .. #sums .. ' for ' .. count .. ' queues')
  end
  return sums
end

-- Reads the cursor of a weighted order: a random number, and the numbers of the queues, up to
-- count, that the last call owes a turn.
local function read_drawn(text, count) -- cold
  local random, rest = string.match(text, '^(%S*)(.*)$')
  local owed = {}
  for word in string.gmatch(rest, '%S+') do
    local i = whole('Reserve', 'cursor', word)
    if i > 0 and i <= count and #owed < SLICE then
      owed[#owed + 1] = i
    end
  end
  return math.max(1, whole('Reserve', 'cursor', random) % 2147483647), owed
end

-- The pairs may be in any order.
local function read_ask(worker)
  local count, poll = whole('Reserve', 'count', ARGV[4]), number('Reserve', 'poll', ARGV[5])
  local last = 6 + whole('Reserve', 'n', ARGV[6])
  local given = options('Reserve', 7, last)
  local queues, list = read_queues(last + 1)
  local order, cursor, owed = given.order or 'ordered', 0, none
  if order == 'weighted' then
    cursor, owed = read_drawn(given.cursor or '1', #queues)
  elseif order ~= 'ordered' and order ~= 'round-robin' and order ~= 'shuffled' then
    reject('Reserve', 'Unknown order "' .. order .. '"')
  elseif given.cursor then
    cursor = whole('Reserve', 'cursor', given.cursor)
  end
  return {
    worker = worker,
    lock_time = given.lock and not_negative('Reserve', 'lock', given.lock) or false,
    owner = given.owner and named('Reserve', 'owner', given.owner) or worker,
    queues = queues, list = list, order = order,
    sums = order == 'weighted' and read_weights(given.weights or '', #queues),
    cursor = cursor, owed = owed, count = count,
    ahead = given.ahead and whole('Reserve', 'ahead', given.ahead) or 0,
    limit = 0, poll = poll, polls = given.polls == '1', brief = given.brief == '1',
    claim = given.claim or '', others = false, tracked = false, quiet = false, first = false,
    paused = none, settings = {}, known = #queues > 1 and new_known(queues),
    left = false, kept = false,
  }
end
