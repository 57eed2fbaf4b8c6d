-- reserve: locks jobs of several queues for a worker. If there are fewer than it asked for, the
-- worker becomes idle, and the next job that is ready wakes it.
--
-- KEYS[1]  the namespace prefix
-- ARGV     COMMAND, NOW, worker, count, order, cursor, poll, claim, ahead, queue...
--          order     'ordered': a queue is asked when those before it have no more;
--                    'round-robin': one job of each queue in turn;
--                    'shuffled': the same, and the next call has another order of queues
--          cursor    which queue is asked first by round-robin, from 0; by shuffled, a random
--                    number up to 2147483646
--          poll      the longest time in seconds before the worker asks again
--          claim     the claim that the last call returned
--          count     may be 0: the worker has no room and is no longer idle
--          ahead     how many jobs more it takes if no other idle worker waits for one of the queues;
--                    none of a queue with a max-concurrency, nor after one. Or "poll AHEAD": only
--                    the time has it ask, so that it need not look right after another worker with
--                    the same queues has. Or "for SECONDS OWNER": none, and the jobs are locked for
--                    another worker, for that long unless it is -
-- Returns  an array: the cursor of the next call; the longest time to wait in seconds,
--          as text, '0' when there may be more, for instance after it has dropped 1000 jobs whose
--          lives had ended, has taken jobs from 60 queues, or because the jobs have more than 2 MiB
--          of data, of which it then returns a part, at least one job; the queue for whose next due
--          job this worker waits, or ''; how many clients listen for puts by other scripts, 2 when
--          no worker is idle, and -1 when this worker is idle and does not listen itself. When
--          there are jobs, the names of their fields as one text, separated by spaces, then the
--          values of each job: fields of the job hash, where time is since when the job is this
--          worker's; heartbeat; and put_at, when it was put, or popped before if it was released.
--          They are one text, with the byte 1 between them, or an array if a value contains that
--          byte or is missing
-- Errors   Reserve()
-- Cost     1 command, 5 more when there are several queues; at most 1, and for 1000 queues 6 in
--          all, for each that was not found empty within the last second, 4 when another one is
--          found empty, 11 for each that has jobs, 3 for each job; 4 for each queue that has
--          anything when the worker becomes idle, and 1 for each queue, or 3 if there are more than
--          16; 1 more for each queue, or 1 in all, and 1, when it is idle already; 6 with "poll"
--          when another worker has looked, and 1 for each queue, or 2 in all; with ahead when a
--          worker is idle, 1 for each queue, up to 100, and 1 more. Once in half an hour, workers
--          with a list of more than 16 queues pay 2 for each
-- For      Go
-- Repeat   once
-- Hot
-- Needs    del exists expire get hdel hexists hget hgetall hincrby hkeys hlen hmget hset hstrlen
--          lindex llen lpush lrange lrem ltrim pexpire publish pubsub|numsub rpop rpush sadd scard
--          set sismember smembers smismember srandmember srem sscan time unlink zadd zcard zcount
--          zincrby zmscore zpopmax zpopmin zrange zrangebyscore zrem zremrangebyrank zrevrange
--          zrevrangebyscore zscore

-- The names of the values of a job.
local NAMES = 'jid klass queue priority retries remaining data tags put_at time heartbeat failure spawned_from_jid x:o'

-- The byte between the values of a job in one text.
local BETWEEN = '\1'

local worker = required('Reserve', 'worker', ARGV[3])
local count = whole('Reserve', 'count', ARGV[4])
local order = ARGV[5]
local cursor = whole('Reserve', 'cursor', ARGV[6])
local poll = number('Reserve', 'poll', ARGV[7])
local claim = ARGV[8]
local ahead, polls, owner, lock_for = 0, false, worker, nil

if ARGV[9] and string.byte(ARGV[9]) == 102 then -- f
  local seconds, name = string.match(ARGV[9], '^for (%S+) (.+)$')
  if not name then
    reject('Reserve', 'Arg "ahead" not a number: ' .. ARGV[9])
  end
  owner = name
  lock_for = seconds ~= '-' and finite(seconds, -1) or nil
  if lock_for and lock_for < 0 then
    reject('Reserve', 'Arg "lock" not a number from 0 on: ' .. seconds)
  end
elseif ARGV[9] and string.byte(ARGV[9]) == 112 then -- p
  polls = true
  ahead = whole('Reserve', 'ahead', string.match(ARGV[9], '^poll (.*)$'))
else
  ahead = whole('Reserve', 'ahead', ARGV[9])
end
if #ARGV < 10 or #ARGV > 1009 then
  reject('Reserve', 'Arg "queue": needs 1 to 1000')
end
local queues = {unpack(ARGV, 10)}
local list = table.concat(queues, '\0')
-- Looking at each name would be expensive.
if queues[1] == '' or queues[#queues] == '' or string.find(list, '\0\0', 1, true) then
  for i = 1, #queues do
    named('Reserve', 'queue', queues[i])
  end
end
if order ~= 'ordered' and order ~= 'round-robin' and order ~= 'shuffled' then
  reject('Reserve', 'Unknown order "' .. tostring(order) .. '"')
end

local idle = prefix .. 'x:idle'

-- Puts the queues into an order that depends on the cursor.
local function shuffle() -- cold
  for i = #queues, 2, -1 do
    cursor = cursor * 16807 % 2147483647
    local other = cursor % i + 1
    queues[i], queues[other] = queues[other], queues[i]
  end
  cursor = 0
end

-- When the worker's entries lapse, unless it asks again before: it is gone then.
local function lapse()
  return later(3 * math.max(poll, 10))
end

-- How many clients listen for puts by other scripts, and whether this worker listens.
local function count_listeners()
  local counts = call('pubsub', 'numsub', prefix .. 'x:listen', prefix .. 'x:wake:' .. worker)
  return counts[2], counts[4] > 0
end

-- The key that says when a worker that looked at all of these queues lately asks again.
local function looked_key()
  return prefix .. 'x:looked:' .. (#queues > FEW_QUEUES and list_name(list) or list)
end

-- Notes that an idle worker has looked at all queues, so that others with the same ones need not do
-- so right after it.
local function note_looked() -- cold
  local ms = math.floor(math.min(1000, 100 * poll))
  if ms > 0 then
    try('set', looked_key(), later(poll), 'PX', string.format('%d', ms))
  end
end

-- Whether the worker has an entry for each of its queues. Those that it has itself are renewed.
local function renew_entries()
  if #queues <= FEW_QUEUES then
    for i = 1, #queues do
      try('zadd', prefix .. 'x:idle:' .. queues[i], lapse(), worker)
    end
    return true
  end
  local name = list_name(list)
  return type(try('zadd', waiters_key(name), lapse(), worker)) == 'number'
    and try('hlen', listed_key(name)) == 1
end

-- Tries to answer a worker that only polls: nobody has woken it since it became idle, so there is
-- nothing but what other clients' scripts have put unheard. If another worker has just looked at all
-- queues, it is enough to ask again before that worker does. Returns how long to wait, or nil.
local function stay_idle() -- cold
  local wait = finite(try('get', looked_key()), 0) - now
  if wait < 0.9 * poll or wait > poll or try('sismember', idle, worker) ~= 1 then
    return nil
  end
  add_first(prefix .. 'workers', stamp, owner)
  return renew_entries() and wait or nil
end

local special = 0

-- How many queues, and how many workers that waited for them, others_idle looks at.
local LOOKED = 100

-- Appends the worker that an entry of x:idle:<queue> is, or those that it stands for.
local function append_waiting(name, others, seen)
  if string.byte(name) ~= LIST then
    others[#others + 1] = name
    return
  end
  for _, member in ipairs(try('zrange', waiters_key(string.sub(name, 2)), 0, LOOKED + 1)) do
    if not seen[member] then
      seen[member] = true
      others[#others + 1] = member
    end
  end
end

-- Whether another worker may be idle that waits for one of the queues.
local function others_idle() -- cold
  if #queues > LOOKED then
    return true
  end
  local seen, others = {[worker] = true}, {}
  for i = 1, #queues do
    local waiting = try('zrange', prefix .. 'x:idle:' .. queues[i], 0, LOOKED + 1)
    if waiting.err then
      return true
    end
    for _, name in ipairs(waiting) do
      if not seen[name] then
        seen[name] = true
        append_waiting(name, others, seen)
      end
    end
    if #others > LOOKED then
      return true
    end
  end
  if #others == 0 then
    return false
  end
  local flags = try('smismember', idle, unpack(others)) -- most that were woken are no longer idle
  for i = 1, #others do
    if flags[i] ~= 0 then
      return true
    end
  end
  return false
end

must_publish()
if polls and claim == '' and count > 0 then
  local wait = stay_idle()
  if wait then
    local counted, listens = count_listeners()
    return {cursor, exact(wait), '', listens and counted or -1}
  end
end
if order == 'shuffled' then
  shuffle()
end
-- One command asks for what there seldom is: paused queues, idle workers, and if there is one queue
-- only, also what it may have besides work.
local existing = false
if #queues == 1 then
  existing = call('exists', prefix .. 'paused_queues', idle, prefix .. 'tracked',
    queue_key(queues[1], 'recur'), queue_key(queues[1], 'scheduled'))
end
if existing ~= 0 then
  special = call('exists', prefix .. 'paused_queues', idle)
end
local tracked = existing and existing > special -- or recurring or scheduled jobs
special = special > 0

-- How many jobs to take: ahead only those that no idle worker could take.
local limit = count
if ahead > 0 and not (special and others_idle()) then
  limit = count + ahead
end

if #queues > 1 or limit == 0 then
  must_write() -- else the commands tried below would find no jobs
end
local paused = none
if special and (#queues <= FEW_QUEUES or call('exists', prefix .. 'paused_queues') == 1) then
  paused = call('smismember', prefix .. 'paused_queues', unpack(queues))
end

-- The bytes of marks.
local ZERO = 48
local ONE = 49

-- Of several queues, each has a mark: 1 if it was found empty within the last second, and no script
-- of this project has filled it since. The queues with the chosen mark are looked at.
local marks, chosen, found_empty = string.rep('0', #queues), '0', {}
local filled = none

-- Which of several queues have nothing to take, now or later: true or false for each that was
-- looked at.
local known_empty = #queues > 1 and {} or none

-- How many queues one command asks about: few at first, because the first ones may have enough.
local step = 1

-- The most that it asks about.
local MAX_STEP = 500

-- Finds out which of some queues have nothing. asked are their numbers, parts the names of their
-- keys, and n is how many of the keys of those from first to last exist.
local function tell_apart(asked, parts, first, last, n)
  if n == 0 or first == last then
    for at = first, last do
      known_empty[asked[at]] = n == 0
    end
    return
  end
  local middle = math.floor((first + last) / 2)
  local left = call('exists', unpack(parts, 4 * first - 3, 4 * middle))
  tell_apart(asked, parts, first, middle, left)
  tell_apart(asked, parts, middle + 1, last, n - left)
end

-- Finds out which queues from number i on are empty, of those with the chosen mark, or of all. Most
-- are, so that it costs few commands.
local function look_ahead(i, all) -- cold
  local asked, parts = {}, {}
  while i <= #queues and #asked < step do
    if known_empty[i] == nil and paused[i] ~= 1 and (all or string.sub(marks, i, i) == chosen) then
      local key, at = queue_key(queues[i], ''), 4 * #asked
      asked[#asked + 1] = i
      parts[at + 1], parts[at + 2] = key .. 'work', key .. 'locks'
      parts[at + 3], parts[at + 4] = key .. 'scheduled', key .. 'recur'
    end
    i = i + 1
  end
  step = math.min(4 * step, MAX_STEP)
  tell_apart(asked, parts, 1, #asked, call('exists', unpack(parts)))
end

-- Whether a queue is not paused, and may have something.
local function is_open(i)
  if paused[i] == 1 or #queues == 1 then
    return paused[i] ~= 1
  end
  if known_empty[i] == nil then
    look_ahead(i, true)
  end
  return not known_empty[i]
end

-- Wakes idle workers for the jobs that this worker does not take, now or when they fall due.
local function pass_on() -- cold
  for i = 1, #queues do
    if is_open(i) and has_jobs(queues[i], worker, poll) then
      wake(queues[i])
    end
  end
end

-- Drops the worker's claim. Returns whether the worker still had it.
local function drop_claim() -- cold
  if claim == '' then
    return false
  end
  local held = try('get', due_key(claim))
  if type(held) ~= 'string' or string.match(held, ' (.*)$') ~= worker then
    return false
  end
  return call('del', due_key(claim)) == 1
end

-- Marks the worker as no longer idle, because it has no room. Returns how many clients listen for
-- puts by other scripts, or 2, which is enough, if no worker is idle.
local function become_busy() -- cold
  if special then
    try('srem', idle, worker)
  end
  drop_claim()
  if not special or call('exists', idle) == 0 then
    return 2
  end
  pass_on()
  return (count_listeners())
end

-- A worker that was woken may have no room any more.
if limit == 0 then
  return {cursor, '0', '', become_busy()}
end

local settings = {} -- of the queues that have been opened
local take = #queues == 1 and call or try

-- Reads what is known of several queues.
local function read_marks()
  local stored = try('hget', prefix .. 'x:empty', list)
  if type(stored) == 'string' and #stored == #queues then
    local since = try('smembers', prefix .. 'x:filled')
    if not since.err then
      marks, filled = stored, since
    end
  end
  if #filled > 0 then
    local is_filled, bytes = {}, {string.byte(marks, 1, #marks)}
    for i = 1, #filled do
      is_filled[filled[i]] = true
    end
    for i = 1, #queues do
      if is_filled[queues[i]] then
        bytes[i] = ZERO
      end
    end
    marks = string.char(unpack(bytes))
  end
end

-- Tells the next reserves of these queues which are empty. Scripts of other clients don't say when
-- they fill one, so all is forgotten after a second.
local function remember_empty(found)
  local key, empty, bytes = prefix .. 'x:empty', {}, {string.byte(marks, 1, #marks)}
  for n = 1, found do
    local i = found_empty[n]
    empty[n], bytes[i] = queues[i], ONE
  end
  marks = string.char(unpack(bytes))
  local first = call('exists', key) == 0
  try('hset', key, list, marks)
  if first then
    call('expire', key, 1)
    call('del', prefix .. 'x:filled')
  elseif #filled > 0 then
    call('srem', prefix .. 'x:filled', unpack(empty))
  end
end

-- Whether a queue has nothing to take, now or later. For a single queue that is not worth a
-- command.
local function is_empty(i)
  if #queues == 1 then
    return false
  end
  if known_empty[i] == nil then
    look_ahead(i)
  end
  if known_empty[i] then
    found_empty[#found_empty + 1] = i
  end
  return known_empty[i]
end

-- How many jobs more are to be taken than the n that were.
local function missing(n)
  return math.max(0, limit - n)
end

-- Opens a queue when n jobs were taken. Returns the lost jobs to take, and how many more may be
-- taken.
local function open_one(i, n)
  local queue = queues[i]
  if paused[i] == 1 or is_empty(i) then
    return none, 0
  end
  settings[i] = read_settings(queue)
  if settings[i].max_concurrency > 0 or settings[i].max_rate then
    limit = count -- a job that waits for its worker would count as running
  end
  local wanted = allowed(queue, settings[i], missing(n))
  if wanted == 0 then
    return none, 0
  end
  if #queues > 1 then
    tracked = call('exists', prefix .. 'tracked', queue_key(queue, 'recur'),
      queue_key(queue, 'scheduled')) > 0
  end
  settings[i].tracked, settings[i].most, settings[i].lock_time = tracked, wanted, lock_for
  settings[i].heartbeat = kept_lock_time(settings[i].heartbeat)
  local expired = open_queue(queue, settings[i], wanted)
  if settings[i].left then
    settings.left = true
    if #expired > 0 then
      wanted = #expired -- the lost jobs that are left come before others
    end
  end
  if #queues > 1 and (expired ~= none or dropped > 0) then
    known_empty, step = {}, 1 -- what becomes of lost jobs may have filled others
  end
  return expired, wanted - #expired
end

-- The same, but skips a queue that can't be read if there are others.
local function open(i, n)
  if #queues == 1 then
    return open_one(i, n)
  end
  local fine, expired, more = pcall(open_one, i, n)
  if fine then
    return expired, more
  end
  return none, 0
end

-- Reduces a job to what the worker gets, without relations and history, which are expensive and
-- seldom needed. Few jobs have the last three values. Most jobs fit into one text, which is a third
-- of the work of an array, unless their data is large.
local function reserved_values(heartbeat)
  local last = BETWEEN .. stamp .. BETWEEN .. heartbeat
  return function(jid, job, _, _, ends)
    local klass, queue, priority, retries = job[KLASS], job[QUEUE], job[PRIORITY], job[RETRIES]
    local remaining, data, tags, time = job[REMAINING], job[DATA], job[TAGS], job[TIME]
    local is_usual = klass and queue and priority and retries and remaining and data and tags and
      time and #data < 65536 and not job[FAILURE] and not job[SPAWNED_FROM_JID] and not job[OPTIONS]
    if is_usual and not string.find(jid .. klass .. queue .. priority .. retries .. remaining ..
      data .. tags .. time, BETWEEN, 1, true) then
      return jid .. BETWEEN .. klass .. BETWEEN .. queue .. BETWEEN .. priority .. BETWEEN ..
        retries .. BETWEEN .. remaining .. BETWEEN .. data .. BETWEEN .. tags .. BETWEEN .. time ..
        last
    end
    return {
      jid, klass, queue, priority, retries, remaining, data, tags, time, stamp,
      job[OPTIONS] and exact(tonumber(ends) - now) or heartbeat,
      job[FAILURE] or false, job[SPAWNED_FROM_JID] or false, job[OPTIONS] or nil,
    }
  end
end

-- Locks jobs of one queue: the lost ones, if they are given, or else up to more of its work. Jobs with
-- limits are not taken ahead, beyond the first direct ones. Returns whether there may be more.
local function lock_from(i, lost, more, direct, out)
  local its, jids = settings[i], lost
  if not lost then
    jids = best_of_work(take, queues[i], more)
  end
  if #jids == 0 then
    return not lost and its.parked and bring_more(queues[i], its, more)
  end
  its.direct = direct
  local values = reserved_values(exact(lock_for or its.heartbeat))
  lock(queues[i], jids, owner, its, values, out, not lost and take or nil)
  return not its.stopped
end

-- Takes what is missing from one queue.
local function take_from(i, out)
  local expired, more = open(i, #out)
  lock_from(i, expired, 0, nil, out)
  if dropped > 0 then
    more = within_drops(more)
  end
  while more > 0 do
    local before = #out
    if not lock_from(i, nil, more, limit > count and count, out) then
      break
    end
    more = more - (#out - before)
    if dropped > 0 then
      more = within_drops(more)
    end
  end
end

-- How many queues a call takes jobs from: a queue costs more than a job.
local MAX_GIVING = 60

-- Takes all jobs of a queue before those of the next one.
local function take_ordered(out)
  local i, giving = string.find(marks, chosen, 1, true), 0
  while i do
    local before = #out
    take_from(i, out)
    giving = #out > before and giving + 1 or giving
    settings.left = settings.left or giving >= MAX_GIVING
    if missing(#out) == 0 or dropped >= MAX_DROPPED or settings.left then
      return
    end
    i = string.find(marks, chosen, i + 1, true)
  end
end

-- Deals turns to the queues: turns[n] is the queue of job n, and shares[i] is how many turns queue
-- i gets for its have[i] jobs. Moves the cursor past the last turn.
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

-- How many of the turns of each queue are for jobs that are started at once, when n were taken.
local function direct_shares(turns, n) -- cold
  local direct = {}
  for turn = 1, math.min(#turns, count - n) do
    direct[turns[turn]] = (direct[turns[turn]] or 0) + 1
  end
  return direct
end

-- Takes a job for each turn, up to wanted, of the have[i] jobs of queue i. Returns how many turns found
-- no job because it is gone.
local function take_turns(have, more, wanted, out)
  local turns, shares = deal(have, within_drops(wanted))
  local taken, direct = {}, limit > count and direct_shares(turns, #out)
  local first, stopped = turns[1] or 1, nil
  for n = first, first + #queues - 1 do
    local i = (n - 1) % #queues + 1
    if shares[i] then
      taken[i] = {}
      local found = dropped < MAX_DROPPED
        and lock_from(i, nil, shares[i], direct and (direct[i] or 0), taken[i])
      more[i] = found and more[i] - #taken[i] or 0
      stopped = stopped or dropped >= MAX_DROPPED and i
    end
  end
  cursor = stopped and stopped % #queues or cursor -- the next call begins with another queue
  local at, before = {}, #out
  for turn = 1, #turns do
    local i = turns[turn]
    at[i] = (at[i] or 0) + 1
    out[#out + 1] = taken[i][at[i]]
  end
  return #turns - (#out - before)
end

-- Takes a job from each queue in turn, opening only as many queues as needed. Their lost jobs come
-- first.
local function take_round_robin(out) -- cold
  local first, opened, giving = cursor, 0, 0
  local more = {} -- how many jobs may still be taken from each opened queue
  repeat
    local have, ready, wanted = {}, 0, nil
    for turn = 1, #queues do
      local i = (first + turn - 1) % #queues + 1
      if turn > opened then
        if ready >= missing(#out) then
          break
        elseif ready + giving >= MAX_GIVING then
          settings.left, wanted = true, ready
          break
        end
        more[i] = 0
        if string.sub(marks, i, i) == chosen then
          local expired
          expired, more[i] = open(i, #out)
          lock_from(i, expired, 0, nil, out)
          giving = #expired > 0 and more[i] == 0 and giving + 1 or giving
        end
        opened = turn
      end
      local waiting = more[i] > 0 and finite(try('zcard', queue_key(queues[i], 'work')), 0) or 0
      have[i] = math.max(0, math.min(more[i], waiting))
      if have[i] > 0 then
        ready = ready + 1
      end
    end
    local gone = take_turns(have, more, wanted or missing(#out), out)
  until gone == 0 or dropped >= MAX_DROPPED or settings.left
end

-- How many marks that have lapsed are removed from a queue at once.
local LAPSED = 500

local function by_due(a, b)
  return a.due < b.due
end

-- Whether a queue has jobs that could be taken if its settings allowed it.
local function is_ready(queue)
  return call('exists', queue_key(queue, 'work')) == 1 or is_due(queue, 'scheduled')
    or is_due(queue, 'recur') or is_due(queue, 'locks')
end

-- When each queue's next job falls due before the worker asks again, or its max-rate allows the next
-- one, soonest first. A parked job that falls due later is tried.
local function coming_due()
  local coming, horizon = {}, exact(now + poll)
  for i = 1, #queues do
    for _, part in ipairs(is_open(i) and {'scheduled', 'recur', 'locks'} or none) do
      local last = part == 'scheduled' and '+inf' or horizon
      local found = try('zrangebyscore', queue_key(queues[i], part), '(' .. stamp, last,
        'WITHSCORES', 'LIMIT', 0, 1)
      local due = tonumber(found[2])
      if due and due > now + poll then
        due = try_parked(found[1], queues[i]) and now
      end
      if due then
        coming[#coming + 1] = {due = due, queue = queues[i]}
      end
    end
    local opens = settings[i] and settings[i].rate and rate_opens(settings[i].rate)
    if opens and opens < now + poll and is_ready(queues[i]) then
      coming[#coming + 1] = {due = opens, queue = queues[i]}
    end
  end
  table.sort(coming, by_due)
  return coming
end

-- Claims what falls due next in a queue, unless another worker has claimed it.
local function claim_due(queue, due)
  if is_claimed(queue, due, worker) then
    return false
  end
  local ttl = math.ceil((due - now) * 1000) + 1000
  call('set', due_key(queue), exact(due) .. ' ' .. worker, 'PX', ttl)
  return true
end

-- Claims what falls due soonest and is not claimed by another idle worker. Returns how long to
-- wait, and for which queue.
local function claim_soonest()
  for _, coming in ipairs(coming_due()) do
    if claim_due(coming.queue, coming.due) then
      return math.max(coming.due - now, 0.001), coming.queue
    end
  end
  return poll, ''
end

-- Removes some of those that wait for jobs: their entries have lapsed. They are not idle any more,
-- except for those that listen, and may wait for jobs of other queues.
local function drop_lapsed(waiting)
  local gone = try('zrangebyscore', waiting, '-inf', stamp, 'LIMIT', 0, LAPSED)
  if #gone == 0 then
    return
  end
  call('zrem', waiting, unpack(gone))
  local channels, dead = {}, {}
  for n = 1, #gone do
    channels[n] = prefix .. 'x:wake:' .. gone[n]
  end
  local counts = call('pubsub', 'numsub', unpack(channels))
  for n = 1, #gone do
    if counts[2 * n] == 0 then
      dead[#dead + 1] = gone[n]
    end
  end
  if #dead > 0 then
    try('srem', idle, unpack(dead))
  end
end

-- Reads when the entries of a list lapse, and in which queues they are missing.
local function read_listed(name)
  local fields = try('hgetall', listed_key(name))
  local lapses, absent = 0, {}
  for i = 1, #fields, 2 do
    if fields[i] == '' then
      lapses = finite(fields[i + 1], 0)
    else
      absent[#absent + 1] = fields[i]
    end
  end
  return lapses, absent
end

-- Adds an entry for the workers with a list of queues to some of these.
local function enter_list(name, lapses, absent) -- cold
  for i = 1, #absent do
    local waiting = prefix .. 'x:idle:' .. absent[i]
    try('zadd', waiting, exact(lapses), '\1' .. name)
    drop_lapsed(waiting)
  end
end

-- Adds the worker to those with its list of queues. Their entries last for an hour, and those that
-- are missing are added. A poll has time to remove some workers that are gone.
local function wait_in_list(again) -- cold
  local name = list_name(list)
  local key, listed, short = waiters_key(name), listed_key(name), 3 * poll
  try('zadd', key, lapse(), worker)
  local lapses, absent = read_listed(name)
  if lapses < now + 1800 + short then
    lapses = now + 3600 + short
    enter_list(name, lapses, queues)
    call('del', listed)
    call('hset', listed, '', exact(lapses))
    local day = string.format('%d', 86400 + 2 * short)
    call('expire', listed, day)
    try('expire', key, day)
  elseif #absent > 0 then
    enter_list(name, lapses, absent)
    call('hdel', listed, unpack(absent))
  end
  if again then
    drop_lapsed(key)
  end
end

-- The same for each of a few queues.
local function wait_for_each(again)
  local lapses = lapse()
  for i = 1, #queues do
    local waiting = prefix .. 'x:idle:' .. queues[i]
    try('zadd', waiting, lapses, worker)
    if again then
      drop_lapsed(waiting)
    end
  end
end

local function become_idle()
  local wait, claimed = claim_soonest()
  if claim ~= claimed and drop_claim() then
    wake(claim) -- before this worker itself can be woken for it
  end
  local again = try('sadd', idle, worker) == 0
  if #queues <= FEW_QUEUES then
    wait_for_each(again)
  end
  return wait, claimed, again
end

-- Whether a queue of which jobs were parked has others that have fallen due.
local function is_left_due() -- cold
  for i = 1, #queues do
    if settings[i] and settings[i].parked and is_due(queues[i], 'scheduled') then
      return true
    end
  end
  return false
end

local function take_all(out)
  if order == 'ordered' then
    take_ordered(out)
  else
    take_round_robin(out)
  end
end

most_bytes = 2097152
local out = {}
local several = #queues > 1 and order ~= 'shuffled'
if several then
  read_marks()
end
take_all(out)
local news = #found_empty
if several and #out < count and not settings.left and string.find(marks, '1', 1, true) then
  chosen = '1'
  take_all(out) -- before the worker becomes idle
end
if settings.left then
  dropped = MAX_DROPPED
end
if met_limits and (settle_limits() > 0 or parked_here > 0 and is_left_due()) then
  dropped = MAX_DROPPED -- there may be more
end
add_first(prefix .. 'workers', stamp, owner)
local wait, claimed, polled, listens = 0, '', false, true
local listeners
if #out < count and dropped < MAX_DROPPED then
  wait, claimed, polled = become_idle()
  if #queues > FEW_QUEUES then
    wait_in_list(polled)
  end
  if polled and polls then
    note_looked()
  end
  listeners, listens = count_listeners()
else
  listeners = become_busy()
end
if several and news > 0 and not (polled and #queues > FEW_QUEUES) then
  remember_empty(news)
end
local reply = {cursor, exact(wait), claimed, listens and listeners or -1}
if #out > 0 then
  reply[5] = NAMES
end
for i = 1, #out do
  reply[i + 5] = out[i]
end
return reply
