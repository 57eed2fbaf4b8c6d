-- Puts with the pair replace, which replace the holder of their unique key. The new job takes over
-- the holder's jid, history, and place among dependencies. A running holder continues; the new job
-- then waits for the holder's end, and holds the key.
--
-- If a job follows a running job, option u has the running job's jid as "a".
--
-- If a job has replaced another, option u has two more values. "j" is the jid of the last put, or
-- of the first such put in the same call, to recognize the put when sent again. "s" is "FIRST
-- LAST", the times of the first and the last put of the waiting job. A job with another time than
-- LAST was popped or put in another way since, and has been waiting from then on.

-- Checks the arguments for replacing in a put.
local function read_replace(area, given) -- cold
  local how, claim = given.replace, given.claim
  if how ~= 'delay' and how ~= 'due' then
    reject(area, 'Arg "replace" is neither delay nor due: ' .. how)
  elseif not claim or claim.m == 'for' or given.depends or given['if'] then
    reject(area, 'Arg "replace" needs a unique key, and no time for it, dependencies or condition')
  end
  given.within = given.within and number(area, 'within', given.within)
end

-- Sets the options of an item that replaces a job with the options old, first put at a time.
local function set_options(item, old, first, jid) -- cold
  local values, letters = split_options(item.given.o)
  local before = split_options(old)
  for letter in string.gmatch(STAYING, '%a') do
    if has_option(old, letter) and not has_option(letters, letter) then
      letters, values[letter] = letters .. letter, before[letter]
    end
  end
  values[UNIQUE].a = type(before[UNIQUE]) == 'table' and before[UNIQUE].a or nil
  values[UNIQUE].j, values[UNIQUE].s = jid, exact(first) .. ' ' .. stamp
  item.put_as, item.first = jid, first
  item.options = join_options(letters, values)
end

-- Sets when an item is due. An item due in the past is placed as if put then.
local function set_due(item, due) -- cold
  local within = item.given.within
  if within and due > item.first + within then
    due = item.first + within
  end
  item.due, item.delay = due, math.max(due - now, 0)
  item.score = due < now and not item.given.share and work_score(due, item.priority) or nil
end

-- Returns when a waiting job is or was due: in work, or there before a limit parked it, by its
-- score. But a job taking turns (lib/fair.lua) hands its score, returned second, to an item taking
-- turns in the same place.
local function due_of(item, jid, job) -- cold
  local queue, limit = job.queue, parked_by(job.state, job.time, job['x:parked'])
  local place = limit and limit_key(limit, 'wait') or queue_key(queue, 'work')
  local score = call('zscore', place, jid)
  local due = not score and finite(call('zscore', queue_key(queue, 'scheduled'), jid))
  if score then
    local at, priority = finite(score), finite(job.priority, 0)
    local in_work = at and (priority - at) * 10000000000 or 0
    if in_work <= now or not item.given.share then
      return in_work <= now and in_work or item.first
    end
    local stays = queue == item.queue and priority == finite(item.priority, 0)
    return now, stays and has_option(job['x:o'], FAIR) and score
  end
  return due or not job['x:undelayed'] and finite(job.scheduled) or now
end

-- Makes an item replace a job that is not running, and holds the item's key with the claim held.
local function replace_job(item, jid, held) -- cold
  local put_as, key = item.jid, job_key(jid)
  local job = named_fields(call, key, {'tags', 'queue', 'state', 'worker', 'history', 'grace',
    'x:o', 'time', 'priority', 'scheduled', 'x:undelayed', 'x:parked'})
  local stored = job['x:o']
  item.jid, item.key, item.replaces = jid, key, true
  item.old = {
    tags = names_of(job.tags), queue = job.queue, state = job.state, worker = job.worker,
    history = job.history, grace = job.grace, ended = none, priority = job.priority,
    limits = stored and has_option(stored, LIMITED) and stored, stored = stored,
  }
  item.tags = item.tags or none
  item.waits = call('scard', key .. '-dependencies') > 0
  item.watches = has_option(stored, POLICY)
  local first, last = string.match(type(held.s) == 'string' and held.s or '', '^(%S+) (%S+)$')
  if last ~= job.time then
    first = job.time
  end
  set_options(item, stored, finite(first, now), put_as)
  local due, turn = now + item.delay, false
  if item.given.replace == 'due' and job.queue then
    due, turn = due_of(item, jid, job)
  end
  set_due(item, due)
  item.turn = turn
  item.score = turn or item.score
end

-- Makes an item replace an earlier item of the same call, which is then not put.
local function take_over(item, earlier) -- cold
  item.jid, item.key, item.replaces = earlier.jid, earlier.key, true
  item.old, item.others, item.waits = earlier.old, earlier.others, earlier.waits
  item.watches, item.claim, item.claimed = earlier.watches, earlier.claim, earlier.claimed
  item.tags = item.tags or none
  item.given.batch = item.given.batch or earlier.given.batch
  set_options(item, earlier.options or earlier.given.o, earlier.first or now,
    earlier.put_as or earlier.jid)
  if item.given.replace == 'due' then
    local stays = earlier.turn and item.given.share and item.queue == earlier.queue and
      finite(item.priority, 0) == finite(earlier.priority, 0)
    set_due(item, earlier.due or now + earlier.delay)
    item.turn = stays and earlier.turn
    item.score = item.turn or item.score
  else
    set_due(item, now + item.delay)
  end
  earlier.left = 'replaced'
end

-- Returns the jid of a put's job if the put was sent before.
local function known_as(item, earlier, holder, held) -- cold
  if earlier and earlier.left then
    return earlier.holder or earlier.jid
  end
  return not earlier and held and held.j == item.jid and holder
end

-- Makes an item follow a running job that holds the item's key.
local function follow(item, jid) -- cold
  local values, letters = split_options(item.given.o)
  values[POLICY], values[UNIQUE].a = {['do'] = 'run', of = {jid}}, jid
  item.depends, item.watches, item.follows = {jid}, true, true
  item.claim = item.given.claim
  item.claim.a = jid
  letters = has_option(letters, POLICY) and letters or letters .. POLICY
  item.options = join_options(letters, values)
end
