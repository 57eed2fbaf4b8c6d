-- Quiet queues. A single queue is quiet if nothing in it falls due before the worker's next poll:
-- it has nothing but work, and this call adds nothing due by then. The call then skips searches for
-- due and coming jobs, and other workers can find only work in the queue.

-- Checks for rare states: paused queues, idle workers and, in a single queue, anything besides
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

-- Reports whether a quiet queue still is: the call parked no job, dropped none that others may have
-- waited for, took no lock that expires before the next poll, and no rate applies.
local function stays_quiet(ask)
  local its, asks_again = ask.settings[1], now + ask.poll
  return not its or parked_here == 0 and dropped == 0 and not its.max_rate
    and now + its.heartbeat > asks_again and first_own_end > asks_again
end
