-- reserve: locks jobs of several queues for a worker that has room for them, in one call. When
-- there are fewer than it has room for, the worker is idle: the next job that is ready wakes it.
--
-- KEYS[1]  the namespace prefix
-- ARGV     NOW, worker, count, order, cursor, poll, claim, queue...
--          order     'ordered': a queue is asked when those before it have no more;
--                    'round-robin': one job of each queue in turn
--          cursor    which queue is asked first by round-robin, from 0
--          poll      how many seconds the worker waits at the most before it asks again
--          claim     the claim that the last call returned
--          count     may be 0: the worker has no room and is not idle any more
-- Returns  an array: the cursor of the next call; how many seconds to wait at the most, as text,
--          '0' when there may be more; the queue for whose next due job this worker waits, or
--          ''; how many clients listen for puts by other scripts, 2 when nobody is idle, and -1
--          when this worker is idle and is not heard itself; then an array for each job:
--          jid, klass, queue, priority, retries, remaining, data, tags, failure,
--          spawned_from_jid, heartbeat, since when it is this worker's, when it was put, or
--          popped before if it was given back
-- Errors   Reserve()
-- Cost     4 commands, 1 more and 1 for each queue when there are several, 10 for each that has jobs, 3 for each job;
--          4 for each queue more when the worker becomes idle

-- @include "lib/check.lua"
-- @include "lib/take.lua"
-- @include "lib/wake.lua"

local worker = required('Reserve', 'worker', ARGV[2])
local count = whole('Reserve', 'count', ARGV[3])
local order = ARGV[4]
local cursor = whole('Reserve', 'cursor', ARGV[5])
local poll = number('Reserve', 'poll', ARGV[6])
local claim = ARGV[7]
local queues = {}
for i = 8, #ARGV do
  queues[i - 7] = named('Reserve', 'queue', ARGV[i])
end
if #queues == 0 or #queues > 1000 then
  reject('Reserve', 'Arg "queue": needs 1 to 1000')
elseif order ~= 'ordered' and order ~= 'round-robin' then
  reject('Reserve', 'Unknown order "' .. tostring(order) .. '"')
end

local idle = prefix .. 'x:idle'

must_publish()
if #queues > 1 or count == 0 then
  must_write() -- what is tried below would find that there are no jobs
end
local paused = call('smismember', prefix .. 'paused_queues', unpack(queues))

-- What is left when the worker has all that it wanted is for others that are idle, and so is
-- waiting for what falls due before they ask again.
local function pass_on() -- cold
  for i = 1, #queues do
    if paused[i] == 0 and has_jobs(queues[i], worker, poll) then
      wake(queues[i])
    end
  end
end

-- How many clients listen for puts by other scripts.
local function count_listeners()
  local heard = call('pubsub', 'numsub', prefix .. 'x:listen', prefix .. 'x:wake:' .. worker)
  return heard[2], heard[4] > 0
end

-- The worker does not wait any more for what it has claimed. Whether it has been the one.
local function drop_claim()
  if claim == '' then
    return false
  end
  local held = try('get', due_key(claim))
  if type(held) ~= 'string' or string.match(held, ' (.*)$') ~= worker then
    return false
  end
  return call('del', due_key(claim)) == 1
end

-- The worker has no room: it is not idle. Returns how many listen, if others are idle; else
-- enough.
local function become_busy()
  try('srem', idle, worker)
  drop_claim()
  if call('exists', idle) == 0 then
    return 2
  end
  pass_on()
  return (count_listeners())
end

-- A worker that was woken may have no room any more.
if count == 0 then
  return {cursor, '0', '', become_busy()}
end

local settings = {} -- of the queues that have been opened
local take = #queues == 1 and call or try

-- Whether a queue has nothing that could be taken, now or later. With one queue, there is no
-- use in asking.
local function is_empty(queue)
  local key = queue_key(queue, '')
  return #queues > 1 and call('exists', key .. 'work', key .. 'locks', key .. 'scheduled', key .. 'recur') == 0
end

-- Opens a queue; the lost jobs to be handed out, and how many more may be taken.
local function open_one(i, wanted)
  local queue = queues[i]
  if paused[i] == 1 or is_empty(queue) then
    return none, 0
  end
  settings[i] = read_settings(queue)
  wanted = allowed(queue, settings[i].max_concurrency, wanted)
  if wanted == 0 then
    return none, 0
  end
  local expired = open_queue(queue, settings[i], wanted)
  return expired, wanted - #expired
end

-- The same, but one queue of several that can't be read is passed over: the others have jobs.
local function open(i, wanted)
  if #queues == 1 then
    return open_one(i, wanted)
  end
  local fine, expired, more = pcall(open_one, i, wanted)
  if fine then
    return expired, more
  end
  return none, 0
end

-- What a job is to a worker: no history and no relations, which are dear and seldom needed.
local function fields(heartbeat)
  return function(job)
    job[11], job[12], job[13] = heartbeat, stamp, job[11]
    return job
  end
end

local function lock_from(i, jids, out)
  if #jids > 0 then
    lock(queues[i], jids, worker, settings[i], fields(exact(settings[i].heartbeat)), out)
  end
end

-- A queue is asked for all that is wanted before the next one is.
local function take_ordered(out)
  for i = 1, #queues do
    local expired, more = open(i, count - #out)
    lock_from(i, expired, out)
    while more > 0 do
      local jids = take_work(take, queues[i], more)
      if #jids == 0 then
        break
      end
      local before = #out
      lock_from(i, jids, out)
      more = more - (#out - before)
    end
    if #out == count then
      return
    end
  end
end

-- Deals the turns: whose job is the first, the second and so on, when queue i has have[i].
-- Moves the cursor behind the last one.
local function deal(have, wanted)
  local turns, shares, left = {}, {}, 0
  for i = 1, #queues do
    left = left + (have[i] or 0)
  end
  while wanted > 0 and left > 0 do
    local i = cursor % #queues + 1
    local share = shares[i] or 0
    if have[i] and have[i] > share then
      shares[i] = share + 1
      turns[#turns + 1] = i
      wanted, left = wanted - 1, left - 1
    end
    cursor = i % #queues
  end
  return turns, shares
end

-- Takes a job for each turn, of the have[i] that queue i may give. Returns how many turns fell on
-- jobs that are gone.
local function take_turns(have, more, out)
  local turns, shares = deal(have, count - #out)
  local taken = {}
  for i = 1, #queues do
    if shares[i] then
      taken[i] = {}
      local jids = take_work(take, queues[i], shares[i])
      lock_from(i, jids, taken[i])
      more[i] = #jids > 0 and more[i] - #taken[i] or 0
    end
  end
  local at, before = {}, #out
  for turn = 1, #turns do
    local i = turns[turn]
    at[i] = (at[i] or 0) + 1
    out[#out + 1] = taken[i][at[i]]
  end
  return #turns - (#out - before)
end

-- Each queue has its turn, and as many are opened as that takes. Lost jobs of these come first.
local function take_round_robin(out) -- cold
  local first, opened = cursor, 0
  local more = {} -- how many jobs each queue that has been opened may still give
  repeat
    local have, ready = {}, 0
    for turn = 1, #queues do
      local i = (first + turn - 1) % #queues + 1
      if turn > opened then
        if ready >= count - #out then
          break
        end
        local expired
        expired, more[i] = open(i, count - #out)
        lock_from(i, expired, out)
        opened = turn
      end
      have[i] = more[i] > 0 and math.min(more[i], finite(try('zcard', queue_key(queues[i], 'work')), 0)) or 0
      if have[i] > 0 then
        ready = ready + 1
      end
    end
    local gone = take_turns(have, more, out)
  until gone == 0
end

local function by_due(a, b)
  return a.due < b.due
end

-- What falls due in each queue before the worker asks again, soonest first.
local function coming_due()
  local coming = {}
  for i = 1, #queues do
    for _, part in ipairs({'scheduled', 'recur', 'locks'}) do
      local due = tonumber(try('zrangebyscore', queue_key(queues[i], part), '(' .. stamp, exact(now + poll),
        'WITHSCORES', 'LIMIT', 0, 1)[2])
      if due and paused[i] == 0 then
        coming[#coming + 1] = {due = due, queue = queues[i]}
      end
    end
  end
  table.sort(coming, by_due)
  return coming
end

-- Claims to wait for what falls due in a queue, unless another worker waits for it already.
local function claim_due(queue, due)
  if is_claimed(queue, due, worker) then
    return false
  end
  call('set', due_key(queue), exact(due) .. ' ' .. worker, 'PX', math.ceil((due - now) * 1000) + 1000)
  return true
end

-- Of all idle workers, one waits for what falls due in a queue. Returns how long to wait, and
-- for which queue.
local function claim_soonest()
  for _, coming in ipairs(coming_due()) do
    if claim_due(coming.queue, coming.due) then
      return math.max(coming.due - now, 0.001), coming.queue
    end
  end
  return poll, ''
end

-- Joins the workers that wait for jobs of a queue, and drops some that have been gone for long.
local function wait_for(queue)
  local waiting = prefix .. 'x:idle:' .. queue
  try('zadd', waiting, stamp, worker)
  local gone = try('zrangebyscore', waiting, '-inf', exact(now - 86400), 'LIMIT', 0, 100)
  if #gone > 0 then
    call('zrem', waiting, unpack(gone))
  end
  for i = 1, #gone do
    if finite(try('zscore', prefix .. 'workers', gone[i]), 0) < now - 86400 then
      try('srem', idle, gone[i]) -- else it asks other queues
    end
  end
end

local function become_idle() -- cold
  local wait, claimed = claim_soonest()
  if claim ~= claimed and drop_claim() then
    wake(claim) -- before this worker is one that can be woken for it
  end
  for i = 1, #queues do
    wait_for(queues[i])
  end
  try('sadd', idle, worker)
  return wait, claimed
end

local out = {}
if order == 'ordered' then
  take_ordered(out)
else
  take_round_robin(out)
end
write_first('zadd', prefix .. 'workers', stamp, worker)
local wait, claimed, listens = 0, '', true
local listeners
if #out < count then
  wait, claimed = become_idle()
  listeners, listens = count_listeners()
else
  listeners = become_busy()
end
local reply = {cursor, exact(wait), claimed, listens and listeners or -1}
for i = 1, #out do
  reply[i + 4] = out[i]
end
return reply
