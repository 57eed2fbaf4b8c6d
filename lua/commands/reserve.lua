-- reserve: locks jobs of several queues for a worker. If there are fewer than requested, the worker
-- becomes idle, and the next ready job wakes it.
--
-- Args     worker, count, poll, n, n arguments that are pairs, and at most 1000 queues:
--          count     the number of jobs; 0 if the worker has no room: it is no longer idle
--          poll      the longest time in seconds until the worker's next request
--          order     ordered (default): a queue follows when the ones before it have no more jobs;
--                    round-robin: one job of each queue in turn; shuffled: the same, with another
--                    order of queues for the next call; weighted: the queues with jobs share the
--                    jobs by weight, and chance decides about the remainder
--          cursor    for round-robin, the index of the first queue, from 0; for shuffled and
--                    weighted, a random number from 1 to 2147483646. weighted also takes the
--                    returned cursor for the same queues, which records the queues that are owed a
--                    turn
--          weights   for weighted, the weights of the queues in their order, separated by spaces: a
--                    queue with weight 6 yields six times as many jobs as one with weight 1
--          claim     the claim returned by the last call
--          ahead     how many more jobs to lock if no other idle worker waits for one of the
--                    queues; none from or after a queue with a max-concurrency
--          brief     1: skip the registration of the worker and the count of listeners. It was
--                    woken, and a recent call did both
--          polls     1: only a timer caused this call. It may rely on a recent look of another
--                    worker at the same queues
--          owner     another worker, for whom the jobs are locked
--          lock      the lock time in seconds, in place of the jobs' options and the settings
-- Returns  an array: the next cursor; the longest time in seconds until the next request, as text;
--          the queue for whose next due job this worker waits, or ''; the number of clients that
--          listen to the puts of classic clients, 2 if no worker is idle or the call is brief, and
--          -1 if this worker is idle and does not listen itself; and, if there are jobs, the names
--          of their fields as one text, separated by spaces, and the values of each job.
--          The time is '0' when there may be more jobs now: after 60 expired jobs or 60 queues with
--          jobs, or if the jobs have more than 2 MiB of data, of which the call returns a part, at
--          least one job.
--          The names begin with a space if the worker could have more jobs with more slots, or when
--          running jobs free a limit or a max-concurrency.
--          The values are fields of the job hash, where time is when this run began; heartbeat; and
--          put_at, when the job was put, or last popped if it was released. They are one text,
--          separated by the byte 1; from 512 bytes of data on, an array of this text without the
--          data and the data; or an array of all values, if one contains that byte or is missing
-- Errors   Reserve()
-- Cost     of one queue 1 command if nothing is ready, 11 and 3 a job, 4 to become idle
-- For      Go
-- Repeat   once
-- Hot

local reply = reserve_one()
if reply then
  return reply
end

local worker = required('Reserve', 'worker', ARGV[3])
if string.byte(worker) == LIST then
  reject('Reserve', 'Arg "worker" begins with the byte 1, like a list of queues')
end
local ask = read_ask(worker)

must_publish()
if ask.polls and ask.claim == '' and ask.count > 0 then
  local wait = stay_idle(ask)
  if wait then
    local counted, listens = count_listeners(worker)
    return {told_cursor(ask), exact(wait), '', listens and counted or -1}
  end
end
if ask.order == 'shuffled' then
  shuffle(ask)
end
look_around(ask)

-- Ahead, it takes only jobs that no idle worker could take.
ask.limit = ask.count
if ask.quiet and ask.count > 0 then
  ask.first = best_of_work(call, ask.queues[1], ask.count + ask.ahead)
end
if ask.ahead > 0 and not (ask.others and (not ask.first or #ask.first > ask.count)
  and others_idle(ask)) then
  ask.limit = ask.count + ask.ahead
end

if ask.known or ask.limit == 0 then
  must_write() -- else the commands tried below would find no jobs
end
-- A woken worker may no longer have a free slot.
if ask.limit == 0 then
  return {told_cursor(ask), '0', '', become_busy(ask)}
end

budget.bytes, budget.drops = 2097152, DROPPED
local out = {}
local known = ask.order ~= 'shuffled' and ask.known
if known then
  read_marks(ask, known)
end
if ask.known then
  take_chosen(ask, out)
else
  take_from(ask, 1, ask.limit, ask.count, out)
end
local found = known and #known.found or 0
if known and #out < ask.count and not ask.left and string.find(known.marks, '1', 1, true) then
  known.chosen = '1'
  take_chosen(ask, out) -- before the worker becomes idle
end
ask.left = ask.left or budget.drops <= 0
if met_limits then
  local kept = settle_limits()
  ask.kept = ask.kept or kept
end
if #out < ask.count and (has_filled or ask.handled and has_more_due(ask)) then
  ask.left = true
end
if not ask.brief and add_first(prefix .. 'workers', stamp, ask.owner) == 1 then
  unlist(prefix .. 'workers')
end
ask.quiet = ask.quiet and stays_quiet(ask)
local wait, claimed, polled, listens = 0, '', false, true
local listeners = 2
if #out < ask.count and not ask.left then
  wait, claimed, polled = become_idle(ask)
  if not ask.brief then
    listeners, listens = count_listeners(worker)
  end
else
  listeners = become_busy(ask)
end
if found > 0 and not (polled and #ask.queues > FEW_QUEUES) then
  remember_empty(ask, known, found)
end
reply = {
  told_cursor(ask), wait == ask.poll and ARGV[5] or exact(wait), claimed,
  listens and listeners or -1,
}
if #out > 0 then
  reply[5] = reply_names(ask.left or ask.kept or #out >= ask.limit)
end
for i = 1, #out do
  reply[i + 5] = out[i]
end
return reply
