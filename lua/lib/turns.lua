-- The order of taking jobs from a worker's queues: one queue after the other, one job of each in
-- turn, beginning where the last call ended (round-robin) or in a random order (shuffled), or jobs
-- of queues drawn at random (weighted).

-- The maximum number of queues that a call takes jobs from: a queue costs more than a job.
local MAX_GIVING = 60

-- Puts the queues into an order derived from the cursor.
local function shuffle(ask) -- cold
  local queues, cursor = ask.queues, ask.cursor
  for i = #queues, 2, -1 do
    cursor = cursor * 16807 % 2147483647
    local other = cursor % i + 1
    queues[i], queues[other] = queues[other], queues[i]
  end
  ask.cursor = 0
end

-- Takes all jobs of one queue before any job of the next queue.
local function take_ordered(ask, out) -- cold
  local known, giving = ask.known, 0
  local i = string.find(known.marks, known.chosen, 1, true)
  while i do
    local before = #out
    if ask.paused[i] ~= 1 and not is_empty(ask, i) then
      local wanted, direct = still_wanted(ask, before)
      take_from(ask, i, wanted, direct, out)
    end
    giving = #out > before and giving + 1 or giving
    ask.left = ask.left or giving >= MAX_GIVING
    if still_wanted(ask, #out) == 0 or budget.drops <= 0 or ask.left then
      return
    end
    i = string.find(known.marks, known.chosen, i + 1, true)
  end
end

-- Deals turns to the queues: turns[n] is the queue of job n, and shares[i] is the number of turns
-- for the have[i] jobs of queue i. Moves the cursor past the last turn.
local function deal_in_turn(ask, have, wanted) -- cold
  local turns, shares, left, queues = {}, {}, 0, #ask.queues
  for i = 1, queues do
    left = left + (have[i] or 0)
  end
  while wanted > 0 and left > 0 do
    local i = ask.cursor % queues + 1
    local share = shares[i] or 0
    if have[i] and have[i] > share then
      shares[i] = share + 1
      turns[#turns + 1] = i
      wanted, left = wanted - 1, left - 1
    end
    ask.cursor = i % queues
  end
  return turns, shares
end

-- Returns how many turns of each queue are for jobs to start at once, after n jobs were taken.
local function direct_shares(ask, turns, n) -- cold
  local direct = {}
  for turn = 1, math.min(#turns, ask.count - n) do
    direct[turns[turn]] = (direct[turns[turn]] or 0) + 1
  end
  return direct
end

-- Handles queues with jobs passed over, because these have limits and would be prefetched. If n
-- jobs are enough, the queues have no more; else their jobs may start, and none is prefetched.
local function take_passed(ask, more, passed, n) -- cold
  for at = 1, #passed do
    local i = passed[at]
    ask.settings[i].stopped = nil
    if n >= ask.count then
      more[i] = 0
    else
      ask.limit = ask.count
    end
  end
end

-- Takes a job for each turn, up to wanted, from the have[i] jobs of each queue i. Returns the
-- number of turns left without a job, because jobs are gone.
local function take_turns(ask, have, more, wanted, out) -- cold
  local turns, shares = deal_in_turn(ask, have, wanted)
  local taken, direct = {}, ask.limit > ask.count and direct_shares(ask, turns, #out)
  local first, stopped, passed = turns[1] or 1, nil, {}
  for n = first, first + #ask.queues - 1 do
    local i = (n - 1) % #ask.queues + 1
    if shares[i] then
      taken[i] = {}
      local found = budget.drops > 0
        and lock_from(ask, i, nil, shares[i], direct and (direct[i] or 0), taken[i])
      local its = ask.settings[i]
      local was_passed = its and its.stopped and its.direct and budget.drops > 0
      if was_passed then
        passed[#passed + 1] = i
      end
      more[i] = (found or was_passed) and more[i] - #taken[i] or 0
      stopped = stopped or budget.drops <= 0 and i
    end
  end
  if stopped then
    ask.cursor = stopped % #ask.queues -- the next call begins with another queue
  end
  local at, before = {}, #out
  for turn = 1, #turns do
    local i = turns[turn]
    at[i] = (at[i] or 0) + 1
    out[#out + 1] = taken[i][at[i]]
  end
  take_passed(ask, more, passed, #out)
  return #turns - (#out - before)
end

-- Takes a job from each queue in turn, opening only as many queues as needed. Lost jobs come first.
local function take_round_robin(ask, out) -- cold
  local queues, known = ask.queues, ask.known
  local first, opened, giving = ask.cursor, 0, 0
  local more = {} -- the number of jobs that may still be taken from each open queue
  repeat
    local have, ready, wanted = {}, 0, nil
    for turn = 1, #queues do
      local i = (first + turn - 1) % #queues + 1
      if turn > opened then
        if ready >= still_wanted(ask, #out) then
          break
        elseif ready + giving >= MAX_GIVING then
          ask.left, wanted = true, ready
          break
        end
        more[i] = 0
        if string.sub(known.marks, i, i) == known.chosen then
          local before, lost, others = #out, open_safely(ask, i, still_wanted(ask, #out))
          more[i] = others + (#lost > 0 and take_lost(ask, i, lost, out) or 0)
          giving = #out > before and more[i] == 0 and giving + 1 or giving
        end
        opened = turn
      end
      local waiting = more[i] > 0 and finite(try('zcard', queue_key(queues[i], 'work')), 0) or 0
      have[i] = math.max(0, math.min(more[i], waiting))
      if have[i] > 0 then
        ready = ready + 1
      end
    end
    local gone = take_turns(ask, have, more, wanted or still_wanted(ask, #out), out)
  until gone == 0 or budget.drops <= 0 or ask.left
end

-- Takes jobs from all queues with the chosen mark, among several.
local function take_chosen(ask, out) -- cold
  if ask.order == 'ordered' then
    take_ordered(ask, out)
  elseif ask.sums then
    take_weighted(ask, out)
  else
    take_round_robin(ask, out)
  end
end

-- Returns the cursor of the next call.
local function told_cursor(ask)
  return ask.owed[1] and ask.cursor .. ' ' .. table.concat(ask.owed, ' ') or ask.cursor
end
