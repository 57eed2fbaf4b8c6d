-- The order in which jobs are taken from the queues of a worker: one queue after the other, one job
-- of each in turn, beginning where the last call ended (round-robin) or in a random order
-- (shuffled), or jobs of queues drawn at random (weighted).

-- The maximum number of queues from which a call takes jobs: a queue costs more than a job.
local MAX_GIVING = 60

-- Puts the queues into an order that depends on the cursor.
local function shuffle(ask) -- cold
  local queues, cursor = ask.queues, ask.cursor
  for i = #queues, 2, -1 do
    cursor = cursor * 16807 % 2147483647
    local other = cursor % i + 1
    queues[i], queues[other] = queues[other], queues[i]
  end
  ask.cursor = 0
end

-- Takes all jobs of a queue before those of the next one.
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
    if still_wanted(ask, #out) == 0 or droppable <= 0 or ask.left then
      return
    end
    i = string.find(known.marks, known.chosen, i + 1, true)
  end
end

-- Deals turns to the queues: turns[n] is the queue of job n, and shares[i] is the number of turns
-- of queue i for its have[i] jobs. Moves the cursor past the last turn.
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

-- The number of turns of each queue that are for jobs that start at once, when n were taken.
local function direct_shares(ask, turns, n) -- cold
  local direct = {}
  for turn = 1, math.min(#turns, ask.count - n) do
    direct[turns[turn]] = (direct[turns[turn]] or 0) + 1
  end
  return direct
end

-- Queues whose next jobs were passed over, because they have limits and would have been ahead, have
-- no more jobs if n are enough. Otherwise, these may start now, and none is taken ahead.
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

-- Takes a job for each turn, up to wanted, of the have[i] jobs of queue i. Returns the number of
-- turns that found no job because it is gone.
local function take_turns(ask, have, more, wanted, out) -- cold
  local turns, shares = deal_in_turn(ask, have, wanted)
  local taken, direct = {}, ask.limit > ask.count and direct_shares(ask, turns, #out)
  local first, stopped, passed = turns[1] or 1, nil, {}
  for n = first, first + #ask.queues - 1 do
    local i = (n - 1) % #ask.queues + 1
    if shares[i] then
      taken[i] = {}
      local found = droppable > 0
        and lock_from(ask, i, nil, shares[i], direct and (direct[i] or 0), taken[i])
      local its = ask.settings[i]
      local was_passed = its and its.stopped and its.direct and droppable > 0
      if was_passed then
        passed[#passed + 1] = i
      end
      more[i] = (found or was_passed) and more[i] - #taken[i] or 0
      stopped = stopped or droppable <= 0 and i
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

-- Takes a job from each queue in turn, opening only as many queues as needed. Their lost jobs come
-- first.
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
  until gone == 0 or droppable <= 0 or ask.left
end

-- An urn holds the queues that a weighted call draws from:
--
--   open    their numbers, or nil if it holds all queues
--   sums    for each of these, the sum of the weights up to it
--   shut    by number, whether a queue is not drawn, as far as it was looked at: it has another
--           mark, is paused, or was found to have no more jobs
--   left    the number of queues that are not known to be shut
--   missed  the number of draws that have found a shut queue since the urn was filled
--   gave    by number, whether a queue has given jobs
--   giving  the number of these
--
-- Filling it takes a step for each queue, so shut ones stay in it until draws often find them.

-- The number of draws that find a shut queue before the urn is filled without these.
local MAX_MISSED = 16

local function new_urn(ask) -- cold
  return {sums = ask.sums, shut = {}, left = #ask.queues, missed = 0, gave = {}, giving = 0}
end

local function shut(urn, i) -- cold
  if not urn.shut[i] then
    urn.shut[i], urn.left = true, urn.left - 1
  end
end

local function is_shut(ask, urn, i) -- cold
  if urn.shut[i] == nil then
    urn.shut[i] = false
    if string.sub(ask.known.marks, i, i) ~= ask.known.chosen or ask.paused[i] == 1 then
      shut(urn, i)
    end
  end
  return urn.shut[i]
end

-- Leaves only the queues in the urn that are not shut.
local function fill_urn(ask, urn) -- cold
  local open, sums, n, sum, before = {}, {}, 0, 0, 0
  for i = 1, #ask.queues do
    if not is_shut(ask, urn, i) then
      n, sum = n + 1, sum + ask.sums[i] - before
      open[n], sums[n] = i, sum
    end
    before = ask.sums[i]
  end
  urn.open, urn.sums, urn.missed = open, sums, 0
end

-- Draws n turns: at a random place among the weights, and from there on at equal distances, so that
-- each queue gets its share, rounded up or down. Returns the queues, and the turns of each.
local function draw(ask, urn, n) -- cold
  ask.cursor = ask.cursor * 16807 % 2147483647
  local drawn, turns, sums, at = {}, {}, urn.sums, 1
  local last = #sums
  local all = sums[last]
  local place = ask.cursor / 2147483647 * all
  for _ = 1, n do
    while at < last and place >= sums[at] do
      at = at + 1
    end
    local i = urn.open and urn.open[at] or at
    if turns[i] then
      turns[i] = turns[i] + 1
    else
      drawn[#drawn + 1], turns[i] = i, 1
    end
    place = place + all / n
    if place >= all then
      place, at = place - all, 1
    end
  end
  return drawn, turns
end

-- Shuts the empty queues among some.
local function shut_empty(ask, urn, some) -- cold
  local unknown = {}
  for at = 1, #some do
    local i = some[at]
    if not is_shut(ask, urn, i) and ask.known.empty[i] == nil then
      unknown[#unknown + 1] = i
    end
  end
  tell_all_apart(ask, unknown)
  for at = 1, #some do
    if not urn.shut[some[at]] and is_empty(ask, some[at]) then
      shut(urn, some[at])
    end
  end
end

-- A deal holds the turns of a call: wanted more, of at most so many more queues, those of some
-- queues, in order, and the shares of each. Adds up to n turns of a queue. Returns their number.
local function add_turns(deal, i, n) -- cold
  local share = deal.shares[i]
  n = math.min(n, (share or deal.most > 0) and deal.wanted or 0)
  if n > 0 then
    if not share then
      deal.queues[#deal.queues + 1], deal.most, share = i, deal.most - 1, 0
    end
    deal.shares[i], deal.wanted = share + n, deal.wanted - n
  end
  return n
end

-- Adds the turns that the last call owes.
local function deal_owed(ask, urn, deal) -- cold
  local kept = {}
  shut_empty(ask, urn, ask.owed)
  for at = 1, #ask.owed do
    local i = ask.owed[at]
    if not urn.shut[i] and add_turns(deal, i, 1) == 0 then
      kept[#kept + 1] = i
    end
  end
  ask.owed = kept
end

-- Adds turns of drawn queues. When all draws of a round were in vain, the next one makes more.
local function deal_drawn(ask, urn, deal) -- cold
  local round = 1
  while deal.wanted > 0 and deal.most > 0 and urn.left > 0 do
    local before = deal.wanted
    local n = math.max(math.min(before, deal.most), math.min(round, MAX_STEP))
    local drawn, turns = draw(ask, urn, n)
    shut_empty(ask, urn, drawn)
    for at = 1, #drawn do
      local i = drawn[at]
      if urn.shut[i] then
        urn.missed = urn.missed + turns[i]
      else
        add_turns(deal, i, turns[i])
      end
    end
    if urn.missed > MAX_MISSED then
      fill_urn(ask, urn)
    end
    round = deal.wanted < before and 1 or 4 * round
  end
end

-- Takes the jobs of turns that were dealt, and shuts queues that have fewer. The next call owes a
-- queue the turns that this one can't take: when it has enough data, or, ahead, of jobs with limits
-- and of queues with a max-concurrency.
local function take_drawn(ask, urn, deal, out) -- cold
  local owed, starts = {}, math.max(0, ask.count - #out)
  for at = 1, #deal.queues do
    local i = deal.queues[at]
    local share, before = deal.shares[i], #out
    local direct = math.min(share, starts)
    local wanted = ask.limit > ask.count and share or direct
    starts = starts - direct
    if wanted > 0 and droppable > 0 and not ask.left then
      take_from(ask, i, wanted, direct, out)
      local its = ask.settings[i]
      wanted = ask.limit > ask.count and share or direct
      if #out - before < wanted and droppable > 0 and not ask.left
        and not (its and its.stopped and its.direct) then
        shut(urn, i)
      end
    end
    local taken = #out - before
    if taken > 0 and not urn.gave[i] then
      urn.gave[i], urn.giving = true, urn.giving + 1
    end
    for _ = taken + 1, urn.shut[i] and 0 or share do
      owed[#owed + 1] = i
    end
  end
  for at = 1, #ask.owed do
    owed[#owed + 1] = ask.owed[at]
  end
  ask.owed = owed
end

-- Takes the jobs of queues that are drawn among those with jobs. The turns that it can't take are
-- owed to their queues, so that these keep their shares wherever a call ends.
local function take_weighted(ask, out) -- cold
  local urn = new_urn(ask)
  while still_wanted(ask, #out) > 0 and urn.left > 0 and droppable > 0 and not ask.left do
    local deal = {
      wanted = still_wanted(ask, #out), most = MAX_GIVING - urn.giving, queues = {}, shares = {},
    }
    deal_owed(ask, urn, deal)
    deal_drawn(ask, urn, deal)
    take_drawn(ask, urn, deal, out)
    if #ask.owed > 0 then
      ask.limit = ask.count -- jobs ahead would pass the jobs owed
    end
    ask.left = ask.left or urn.giving >= MAX_GIVING
  end
end

-- Takes jobs from all queues with the chosen mark.
local function take_all(ask, out)
  if not ask.known then
    take_from(ask, 1, ask.limit, ask.count, out)
  elseif ask.order == 'ordered' then
    take_ordered(ask, out)
  elseif ask.sums then
    take_weighted(ask, out)
  else
    take_round_robin(ask, out)
  end
end

-- The cursor of the next call.
local function told_cursor(ask)
  if ask.owed[1] then
    return ask.cursor .. ' ' .. table.concat(ask.owed, ' ')
  end
  return ask.cursor
end
