-- The request of a worker, and what a call of reserve learns about it, in one table, ask:
--
--   worker    who asks
--   owner     whose the jobs become, usually the same
--   lock_time for how many seconds they are locked, if not for as long as the queue says
--   queues    their names
--   list      the same as one text
--   order     'ordered', 'round-robin' or 'shuffled', and cursor, which queue comes first
--   count     how many jobs it asks for
--   ahead     how many it takes besides if no other worker waits for them
--   limit     how many it gets at most
--   poll      the time in seconds after which it asks again
--   polls     whether it asks because this time is over: it was not woken
--   claim     the queue for whose next due job it waits, or ''
--
--   others    whether there are idle workers, or paused queues
--   tracked   whether a single queue may have anything but work
--   paused    1 for each queue that is paused, by its number
--   settings  of the queues that were opened, by their numbers
--   known     which of several queues are empty: lib/known.lua
--   left      whether jobs were left that can be taken at once

local function read_queues(first) -- cold
  if #ARGV < first or #ARGV - first >= 1000 then
    reject('Reserve', 'Arg "queue": needs 1 to 1000')
  end
  local queues = {unpack(ARGV, first)}
  local list = table.concat(queues, '\0')
  -- Looking at each name would be expensive.
  if queues[1] == '' or queues[#queues] == '' or string.find(list, '\0\0', 1, true) then
    for i = 1, #queues do
      named('Reserve', 'queue', queues[i])
    end
  end
  return queues, list
end

-- The order of the arguments' pairs does not matter.
local function read_ask(worker)
  local count, poll = whole('Reserve', 'count', ARGV[4]), number('Reserve', 'poll', ARGV[5])
  local last = 6 + whole('Reserve', 'n', ARGV[6])
  local given = options('Reserve', 7, last)
  local queues, list = read_queues(last + 1)
  local order, seconds = given.order or 'ordered', false
  if order ~= 'ordered' and order ~= 'round-robin' and order ~= 'shuffled' then
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
    cursor = given.cursor and whole('Reserve', 'cursor', given.cursor) or 0,
    count = count,
    ahead = given.ahead and whole('Reserve', 'ahead', given.ahead) or 0,
    limit = 0,
    poll = poll,
    polls = given.polls == '1',
    claim = given.claim or '',
    others = false,
    tracked = false,
    paused = none,
    settings = {},
    known = #queues > 1 and new_known(queues),
    left = false,
  }
end
