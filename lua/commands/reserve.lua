-- reserve: locks jobs of several queues for a worker. If there are fewer than requested, the worker
-- becomes idle, and the next ready job wakes it.
--
-- Args     worker, count, poll, n, n arguments that are pairs, and at most 1000 queues:
--          count     how many jobs; may be 0: the worker has no room and is no longer idle
--          poll      the longest time in seconds before the worker asks again
--          order     ordered, if nothing is said: a queue is asked when those before it have no
--                    more; round-robin: one job of each queue in turn; shuffled: the same, and the
--                    next call has another order of queues; weighted: the jobs are divided among
--                    the queues with jobs by their weights, and chance decides about the rest.
--                    With one queue, there is no order
--          cursor    which queue is asked first by round-robin, from 0; by shuffled and weighted, a
--                    random number from 1 to 2147483646. A weighted call may be given the cursor of
--                    the last one with the same queues, which also has the queues that are owed a
--                    turn
--          weights   one for each queue, in their order, separated by spaces: by weighted, a queue
--                    with weight 6 gives six times as many jobs as one with weight 1
--          claim     the claim that the last call returned
--          ahead     how many jobs more it takes if no other idle worker waits for one of the
--                    queues; none of a queue with a max-concurrency, nor after one
--          brief     1 if the worker was woken, and its last call that was not brief is so recent
--                    that this one needs neither say that it is there nor count who listens
--          polls     1 if only the time has it ask, so that it need not look right after another
--                    worker with the same queues has
--          owner     another worker for whom the jobs are locked
--          lock      for how many seconds they are locked, whatever their options and the queue say
-- Returns  an array: the cursor of the next call; the longest time to wait in seconds,
--          as text, '0' when there may be more, for instance after it has dropped 60 jobs whose
--          lives had ended, has taken jobs from 60 queues, or because the jobs have more than 2 MiB
--          of data, of which it then returns a part, at least one job; the queue for whose next due
--          job this worker waits, or ''; how many clients listen for puts by other scripts, 2 when
--          no worker is idle or the call is brief, and -1 when this worker is idle and does not
--          listen itself. When there are jobs, the names of their fields as one text, separated by
--          spaces, with a space before the first if there are more jobs, or may be, that the worker
--          could have with more slots, or when jobs end that now use up a limit or a
--          max-concurrency; then the values of each job: fields of the job hash, where time is
--          since when the job is this worker's; heartbeat; and put_at, when it was put, or popped
--          before if it was released. They are one text, with the byte 1 between them; an array of
--          that without data and the data, from 512 bytes on; or an array of all values, if one
--          contains that byte or is missing
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
if ask.ahead > 0 and not (ask.others and exceeds_slots(ask) and others_idle(ask)) then
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
