-- The weighted order divides the jobs of a call among the queues by weight, and the rest by chance.

-- An urn holds the queues to draw from in a weighted call:
--
--   open    their numbers, or nil if the urn holds all queues
--   sums    for each of these, the sum of the weights up to it
--   shut    by number, whether a queue is not drawn, if already checked: it has another mark, is
--           paused, or has no more jobs
--   left    the number of queues not known to be shut
--   gave    by number, whether a queue has given jobs
--   giving  the number of queues in gave

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

-- Leaves only open queues in the urn.
local function fill_urn(ask, urn) -- cold
  local open, sums, n, sum, before = {}, {}, 0, 0, 0
  for i = 1, #ask.queues do
    if not is_shut(ask, urn, i) then
      n, sum = n + 1, sum + ask.sums[i] - before
      open[n], sums[n] = i, sum
    end
    before = ask.sums[i]
  end
  urn.open, urn.sums = open, sums
end

-- Draws n turns, at a random place among the weights and at equal distances from there. Each queue
-- receives its share, rounded up or down. Returns the queues, and the turns of each.
local function draw(ask, urn, n) -- cold
  ask.cursor = ask.cursor * 16807 % 2147483647
  local drawn, turns, sums, at = {}, {}, urn.sums, 1
  local last = #sums
  local all = sums[last]
  local place, step = ask.cursor / 2147483647 * all, all / n
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
    place = place + step
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

-- A deal holds the turns of a call: how many are wanted, of how many more queues at most; the
-- queues so far, in order, and their shares. Adds up to n turns of a queue. Returns their number.
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

-- Adds the turns owed by the last call.
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

-- Adds turns of drawn queues. Draws of shut queues are in vain: the urn is then refilled without
-- these queues. If all draws were in vain, the next round makes more.
local function deal_drawn(ask, urn, deal) -- cold
  local round = 1
  while deal.wanted > 0 and deal.most > 0 and urn.left > 0 do
    local before = deal.wanted
    local n = math.max(math.min(before, deal.most), math.min(round, MAX_STEP))
    local drawn, turns = draw(ask, urn, n)
    shut_empty(ask, urn, drawn)
    for at = 1, #drawn do
      if not urn.shut[drawn[at]] then
        add_turns(deal, drawn[at], turns[drawn[at]])
      end
    end
    if deal.wanted > 0 and deal.most > 0 then
      fill_urn(ask, urn)
    end
    round = deal.wanted < before and 1 or 4 * round
  end
end

-- Takes the jobs of the dealt turns, and shuts queues with fewer. The next call owes a queue all
-- turns left when this call has enough data, and prefetched turns for jobs with limits and queues
-- with a max-concurrency.
local function take_drawn(ask, urn, deal, out) -- cold
  local owed, starts = {}, math.max(0, ask.count - #out)
  for at = 1, #deal.queues do
    local i = deal.queues[at]
    local share, before = deal.shares[i], #out
    local direct = math.min(share, starts)
    local wanted = ask.limit > ask.count and share or direct
    starts = starts - direct
    if wanted > 0 and budget.drops > 0 and not ask.left then
      take_from(ask, i, wanted, direct, out)
      local its = ask.settings[i]
      wanted = ask.limit > ask.count and share or direct
      if #out - before < wanted and budget.drops > 0 and not ask.left
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

-- Takes jobs of queues drawn among those with jobs. Turns left over are owed: each queue keeps its
-- share wherever a call ends.
local function take_weighted(ask, out) -- cold
  local urn = {sums = ask.sums, shut = {}, left = #ask.queues, gave = {}, giving = 0}
  while still_wanted(ask, #out) > 0 and urn.left > 0 and budget.drops > 0 and not ask.left do
    local deal = {
      wanted = still_wanted(ask, #out), most = MAX_GIVING - urn.giving, queues = {}, shares = {},
    }
    deal_owed(ask, urn, deal)
    deal_drawn(ask, urn, deal)
    take_drawn(ask, urn, deal, out)
    if #ask.owed > 0 then
      ask.limit = ask.count -- prefetched jobs would pass the jobs owed
    end
    ask.left = ask.left or urn.giving >= MAX_GIVING
  end
end
