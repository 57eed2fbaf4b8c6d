-- Fair shares. Jobs with the option g, {"t": tenant, "w": weight}, wait behind all others of their
-- priority, and the tenants take turns. A job's turn is a number from 0 on, part of the score:
-- priority - 0.5 - turn. It is the turn of the first job in the queue, or the end of the tenant's
-- last turn if later. The length of a turn is a step divided by the weight.
--
-- x:fair:PRIORITY:QUEUE is a sorted set of tenants by the end of the last turn. Tenants are removed
-- when their turns have passed. The script that takes the tenants' last job deletes the key.
-- Classic scripts do not, so the key also expires some time after the last job was taken.

-- The largest priority, on either side of 0, that leaves room for turns in a score.
local MAX_FAIR_PRIORITY = 10000

-- Returns the tenant and the weight in the options text, or nil.
local function fair_share(text) -- cold
  local share = split_options(text)[FAIR]
  if type(share) == 'table' and type(share.t) == 'string' and share.t ~= '' then
    return share.t, math.min(math.max(finite(share.w, 1), 0.01), 100)
  end
end

-- Checks the share in the options of a put. Returns the options text.
local function read_share(area, text) -- cold
  if not fair_share(text) then
    reject(area, 'Arg "o" has no tenant: ' .. string.sub(text, 1, 200))
  end
  return text
end

-- Returns the turn of the first waiting job of a priority that takes turns, or nil, and the error
-- if the queue can't be read.
local function first_turn(queue, priority) -- cold
  local first = try('zrevrangebyscore', queue_key(queue, 'work'), exact(priority - 0.5),
    '(' .. exact(priority - 1), 'WITHSCORES', 'LIMIT', 0, 1)
  local score = finite(first[2])
  return score and math.max(priority - 0.5 - score, 0), first.err
end

-- The time in seconds for which a queue's turns are kept if no job is taken.
local TURNS_KEPT = 604800

local function turns_key(queue, priority) -- cold
  return prefix .. 'x:fair:' .. exact(priority) .. ':' .. queue
end

-- Reads the turns of a queue and a priority for one call. first is the turn of the first job; ends
-- has the ends of turns assigned by this call, by tenant; passed lists a few tenants whose turns
-- have passed; waits is false if no job waits. Nil if the turns can't be read.
local function read_turns(queue, priority) -- cold
  local key = turns_key(queue, priority)
  local first, damaged = first_turn(queue, priority)
  if damaged then
    return nil
  end
  -- A turn of weight 1 is so large that a hundredth of it changes a score.
  local _, exponent = math.frexp(math.abs(priority) + 1)
  return {
    key = key, first = first or 0, waits = first ~= nil, ends = {}, step = 2 ^ (exponent - 45),
    passed = first and try('zrangebyscore', key, '-inf', exact(first), 'LIMIT', 0, 2) or none,
  }
end

-- Writes the ends of turns, first because that needs memory, and removes tenants who had theirs.
local function write_turns(turns) -- cold
  local key, ends, passed, n = turns.key, {}, {}, 0
  for tenant, at in pairs(turns.ends) do
    n = n + 1
    ends[2 * n - 1], ends[2 * n] = exact(at), tenant
  end
  each_slice(try, 'zadd', key, ends)
  if not turns.waits then
    if try('zcard', key) ~= n then
      try('unlink', key) -- left from jobs taken by another script
      each_slice(try, 'zadd', key, ends)
    end
    try('expire', key, TURNS_KEPT)
    turns.waits = true
  end
  for _, tenant in ipairs(turns.passed) do
    passed[#passed + 1] = not turns.ends[tenant] and tenant or nil
  end
  each_slice(try, 'zrem', key, passed)
  turns.passed = none
end

-- Returns the score of a job with these options, or nil without a share. A turn above 0.49 would be
-- among the jobs of the next priority. known is a table for jobs of one call that are added to the
-- queue together. If known has a list later, the turns to write are appended to that list.
local function fair_score(queue, priority, stored, known) -- cold
  known.shares, known.turns = known.shares or {}, known.turns or {}
  local share = known.shares[stored] or {fair_share(stored)}
  local tenant, weight = share[1], share[2]
  known.shares[stored], priority = share, finite(priority, 0)
  if not tenant or math.abs(priority) > MAX_FAIR_PRIORITY then
    return
  end
  local all = known.turns[queue] or {}
  local turns = all[priority] or read_turns(queue, priority)
  if not turns then
    return -- before the first write
  elseif known.later and not all[priority] then
    known.later[#known.later + 1] = turns
  end
  known.turns[queue], all[priority] = all, turns
  local last = turns.ends[tenant]
    or turns.waits and finite(try('zscore', turns.key, tenant), 0) or 0
  local turn = math.min(math.max(turns.first, last), 0.49)
  turns.ends[tenant] = turn + turns.step / weight
  if not known.later then
    write_turns(turns)
    turns.ends = {}
  end
  return exact(priority - 0.5 - turn)
end

-- Writes the turns collected by a call.
local function write_later(known) -- cold
  for _, turns in ipairs(known.later) do
    write_turns(turns)
  end
  known.later = {}
end

-- Must be called when jobs with a share have left a queue's work, or may have.
local function leave_turns(queue, priority) -- cold
  priority = finite(priority, 0)
  local first, damaged = first_turn(queue, priority)
  local key = turns_key(queue, priority)
  if first then
    try('expire', key, TURNS_KEPT)
  elseif not damaged then
    try('unlink', key)
  end
end

-- Returns the score of a job that waits from now on; stored may be false. turns is known, as above.
local function score_of(queue, priority, stored, turns) -- cold
  return stored and has_option(stored, FAIR) and fair_score(queue, priority, stored, turns) or
    work_score(now, priority)
end
