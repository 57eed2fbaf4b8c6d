-- Putting jobs into queues: one, or many at once. What they share is written once.
--
-- Everything that can fail is read before the first write. If new jobs without dependencies go into
-- one set, adding them to it is the first write, so nothing has to be read.

-- Whether jobs of this call claim unique keys, whether some want to know if others fail, and whether
-- some have lifetimes. If some have a fair share of their queue, turns is a table.
local claiming, watching, put_mortal, put_turns

-- The batches that get members by this call, by jid, or nil.
local put_batches

-- Fields of a job that few puts set, with their values.
local function more_fields(backoff, text) -- cold
  local more = {}
  if backoff then
    more[1], more[2] = 'backoff', backoff
  end
  if text and text ~= '' then
    more[#more + 1] = 'x:o'
    more[#more + 1] = text
  end
  return more
end

-- Has a put that says again which key its job claims keep the job that this one follows.
local function keep_followed(given, old) -- cold
  local claim = given.claim
  if claim and old and old.a and old.k == claim.k then
    claim.a = old.a
    given.o = with_value(given.o, 'u', claim)
  end
end

-- Merges the options of an existing job with those of the put. If its life begins again, or it runs,
-- it claims its unique key again.
local function keep_options(item, old, state) -- cold
  local ended = state == 'complete' or state == 'failed'
  local over = not ended and is_over(item.jid, old, 'waiting')
  if has_option(old, 'u') then
    item.claimed = old
    keep_followed(item.given, claim_of(old))
    local again = ended or over or state == 'running'
    item.claim = again and not item.given.claim and claim_again(item.jid, old)
  end
  item.watches = has_option(old, 'f')
  item.old.limits = has_option(old, 'c') and old
  local given = item.given
  local drop = given.drop or ''
  if over then
    drop = drop .. 'st'
  end
  if has_option(old, 'p') then
    drop = drop .. 'p' -- progress ends with any put
  end
  local text = merge_options(old, {o = given.o, drop = drop}, ended)
  if has_lifetime(text or old) then
    text = renew_lifetimes(text or old)
    put_mortal = true
  end
  item.options = text or old
  if text then
    item.text = text
    item.more = more_fields(item.given.backoff, text)
    item.old.optionless = text == ''
  end
  item.share = has_option(text or old, 'g') and (text or old)
  put_turns = put_turns or item.share and {}
end

-- Reads an existing job that will be overwritten. Fields that the item lacks stay as they were.
local function read_old(item) -- cold
  local key, depends = item.key, item.depends
  local fields = call('hmget', key, 'priority', 'tags', 'queue', 'state', 'failure', 'retries',
    'worker', 'history', 'grace', 'x:o')
  item.old = {
    tags = names_of(fields[2]), queue = fields[3], state = fields[4], failure = fields[5],
    worker = fields[7], history = fields[8], grace = fields[9], ended = none,
    priority = fields[1], stored = fields[10],
  }
  item.priority = item.priority or fields[1]
  item.tags = item.tags or item.old.tags
  item.retries = item.retries or fields[6]
  if fields[10] then
    keep_options(item, fields[10], fields[4])
  end
  if #depends == 0 then
    item.waits = call('scard', key .. '-dependencies') > 0
    return
  end
  local before = call('smembers', key .. '-dependencies')
  item.old.ended = difference(before, depends, 1)
  item.waits = #item.old.ended < #before
end

-- The part of its queue that a job goes into.
local function part_of(item)
  if item.waits then
    return 'depends'
  end
  return item.delay > 0 and 'scheduled' or 'work'
end

-- Whether a put under a condition leaves an existing job in this state as it is.
local function is_left_alone(condition, state)
  if condition == 'finished' then
    return state ~= 'complete' and state ~= 'failed'
  elseif condition == 'idle' then
    return state == 'running'
  end
  return true
end

-- Whether the life of a job that is there, of which state and options were found, has ended, although
-- nobody has deleted it yet.
local function is_gone(jid, found) -- cold
  return found[2] and is_over(jid, found[2], found[1])
end

-- Finds out whether another job has the unique key that an item claims, and if so, whether the item
-- replaces it. before and claims are as in read_before.
local function read_holder(item, before, claims) -- cold
  local given = item.given
  local claim, earlier = given.claim, claims[given.claim.k]
  local holder, state, held = holder_of(claim.k)
  local known = given.replace and known_as(item, earlier, holder, held)
  if earlier and not earlier.left then
    holder, held = earlier.jid, earlier.given.claim or earlier.claim
    state = earlier.waits and 'depends' or earlier.delay > 0 and 'scheduled' or 'waiting'
  end
  if known then
    item.left, item.holder = 'replaced', known
  elseif not holder or holder == item.jid then
    item.claim = claim
  elseif not given.replace or not held or held.m == 'for' then
    item.left, item.holder = state, holder
  elseif earlier then
    take_over(item, earlier)
  elseif state == 'running' then
    follow(item, holder)
  else
    if before[holder] then
      reject('Put', 'Job ' .. holder .. ' is named twice')
    end
    replace_job(item, holder, held)
  end
  if known or not item.left then
    claims[claim.k] = item
  end
  if item.replaces or item.follows then
    item.more = more_fields(given.backoff, item.options)
  end
end

-- Leaves a key that a job would have again to a job that is put before it.
local function keep_claim(item, claims) -- cold
  local key = item.claim.k
  if claims[key] then
    item.claim = nil
  else
    claims[key] = item
  end
end

-- Reads the job's old state and its dependencies. before holds the jobs that are put before it, and
-- claims those items that claim unique keys, or did so when the same call was sent before. A put
-- that leaves the job as it is, or is refused because of its unique key, only gets left, the state
-- of the job that is there.
local function read_before(item, before, claims)
  if call('exists', item.key) == 1 then
    local new = item.checked == 'new' or item.given.replace
    local condition = new and 'new' or item.given['if']
    if before[item.jid] then
      reject('Put', 'Job ' .. item.jid .. ' is named twice')
    end
    local found = condition and call('hmget', item.key, 'state', 'x:o') or none
    if condition and is_left_alone(condition, found[1]) and (new or not is_gone(item.jid, found)) then
      item.left = found[1] or ''
      if new and item.given.claim then
        claims[item.given.claim.k] = item
      end
      return
    end
    read_old(item)
  end
  if item.given.claim then
    read_holder(item, before, claims)
    if item.left then
      return
    end
  elseif item.claim then
    keep_claim(item, claims)
  end
  if not item.others then
    local others, problem = needed(item.jid, item.depends, 1, before)
    if problem then
      reject('Put', problem)
    end
    item.others, item.waits = others, item.waits or #others > 0
  end
  item.watches = item.waits and (item.watches or item.given.watches)
  watching = watching or item.watches
end

-- Removes an existing job from everywhere that its old state put it.
local function leave(item, worker) -- cold
  local jid, old = item.jid, item.old
  local queue, owner = old.queue, old.worker
  adopt_history(jid, old.history)
  if queue then
    leave_queue(queue, jid)
  end
  if owner and owner ~= '' then
    try('zrem', worker_key(owner), jid)
    old.lost = owner ~= worker
    if old.state == 'running' and queue then
      wake_for_slot(queue)
    end
  end
  if old.state == 'complete' then
    try('zrem', prefix .. 'completed', jid)
  elseif old.state == 'failed' then
    forget_failure(jid, queue, old.failure)
  end
  if old.grace then
    call('hdel', item.key, 'grace')
  end
  local keeps_turn = item.score and item.given.share
  if old.stored and has_option(old.stored, 'g') and old.state == 'waiting' and queue and not keeps_turn then
    leave_turns(queue, old.priority)
  end
  if old.limits then
    leave_limits(jid, old.limits)
  end
  if old.optionless then
    call('hdel', item.key, 'x:o')
  end
  remove_tags(jid, difference(old.tags, item.tags, 1), 1)
  for _, other in ipairs(old.ended) do
    undepend(jid, other)
  end
end

-- Removes the items that leave a job as it is.
local function drop_left(items)
  local kept = 0
  for i = 1, #items do
    local item = items[i]
    items[i] = nil
    if not item.left then
      kept = kept + 1
      items[kept] = item
    end
  end
end

-- Writes what an item claims, after giving up another key that its job had.
local function change_claim(item) -- cold
  write_claim(item.jid, item.claim)
  local before = claim_of(item.claimed)
  if before and before.k ~= item.claim.k then
    release_claim(item.jid, item.claimed, 'canceled')
  end
end

-- Makes a job wait for others, or fails before anything is written.
local function must_link(jid, others, added) -- cold
  local failed = link(jid, others, added)
  if failed then
    call('sadd', failed.key, failed.member) -- the same error, for the caller
  end
end

-- Makes a batch wait for more members. Returns how many it did not wait for before.
local function link_members(jid, members, added) -- cold
  local dependencies = job_key(jid) .. '-dependencies'
  local before = call('scard', dependencies)
  must_link(jid, members, added)
  return call('scard', dependencies) - before
end

-- Prepares for writing jobs that exist, claim unique keys, have dependencies, or go into several
-- sets: reads what is needed, removes the jobs from where they were, and links them to their
-- dependencies. Removes those that leave a job as it is. Returns a list of them: place in the order
-- from 0, jid and state, without those that are here because they are put for the second time. It
-- also has those that replace a job: with its jid, and "replaced" in place of the state.
local function prepare(worker, groups, in_order) -- cold
  local before, claims, added, found = {}, {}, {}, {}
  for i, item in ipairs(in_order) do
    item.depends, item.given = item.depends or none, item.given or none
    read_before(item, before, claims)
    if not item.left then
      call('zcard', queue_key(item.queue, part_of(item))) -- fails unless jobs can be added there
      before[item.jid] = 'put'
      found[#found + 1] = item.replaces and {i - 1, item.jid, 'replaced'} or nil
    elseif item.holder or item.checked ~= 'new' and not item.given.replace then
      found[#found + 1] = {i - 1, item.holder or item.jid, item.left}
    end
  end
  drop_left(in_order)
  for g = 1, #groups do
    drop_left(groups[g])
  end
  if put_batches then
    read_batches('Put', put_batches, in_order)
  end
  for _, item in ipairs(in_order) do
    must_link(item.jid, item.others, added)
  end
  if put_batches then
    for jid, batch in pairs(put_batches) do
      batch.count = link_members(jid, batch.members, added)
    end
  end
  for _, item in ipairs(in_order) do
    if item.claim then
      change_claim(item)
    end
    if item.old then
      leave(item, worker)
    end
  end
  return found
end

-- The difference in time between the scores of one call's jobs, so that they are popped in order: a
-- microsecond, or the smallest difference that a score of their size can express.
local function apart(priority) -- cold
  if priority == 0 then
    return 0.000001
  end
  local _, exponent = math.frexp(priority)
  return math.max(0.000001, 2 ^ (exponent - 52) * 10000000000)
end

-- The score of a job that is put now without a priority, digit by digit, because formatting a
-- fraction is expensive; nil unless stamp has ten digits and six decimals.
local function score_text()
  if #stamp == 17 and string.sub(stamp, 11, 11) == '.' and now < 9000000000 then
    return '-0.' .. string.sub(stamp, 1, 10) .. string.sub(stamp, 12)
  end
end

-- The score of the nth job that a call puts into work, from 0, as a fraction.
local function fractional_score(n, priority) -- cold
  if n == 0 then
    return work_score(now, priority)
  end
  return work_score(now + n * apart(finite(priority, 0)), priority)
end

-- The score of an item whose time is over, if it has a place of its own; else nil.
local function past_score(item) -- cold
  local stored = item.options or item.given.o
  if not stored or own_place(stored) ~= 'place' then
    return nil
  end
  item.more = item.more or {}
  item.more[#item.more + 1] = 'time'
  item.more[#item.more + 1] = exact(item.at)
  return work_score(item.at, item.priority)
end

-- Adds the jobs of a queue to where they go, those that can be popped at once as the first write if
-- there are no others. Sets their states.
local function place_all(queue, group)
  local first = score_text()
  local digits = first and #group > 1 and string.sub(first, 4) + 0
  local work, n = none, 0
  for i = 1, #group do
    local item = group[i]
    if item.waits then
      call('zadd', queue_key(queue, 'depends'), stamp, item.jid)
      item.state = 'depends'
    elseif item.delay > 0 then
      call('zadd', queue_key(queue, 'scheduled'), exact(now + item.delay), item.jid)
      item.state = 'scheduled'
    else
      local score = item.score or item.at and past_score(item) or false
      local share = put_turns and (item.share or item.given and item.given.share)
      if share and not score then
        score = fair_score(queue, item.priority, share, put_turns)
      end
      if not score and (item.priority or not first) then
        score = fractional_score(n, item.priority)
      elseif not score then
        score = n == 0 and first or string.format('-0.%016d', digits + n)
      end
      if n == 0 then
        work = {score, item.jid} -- has its size at once
      else
        work[2 * n + 1], work[2 * n + 2] = score, item.jid
      end
      n = n + 1
      item.state = 'waiting'
    end
  end
  each_slice(call, 'zadd', queue_key(queue, 'work'), work)
end

-- Writes one job, and appends text to its history.
local function write_job(queue, item, text)
  local key, retries, tags = item.key, item.retries or DEFAULT_RETRIES, '[]'
  record(key, text)
  if item.tags and #item.tags > 0 then
    add_tags(item.jid, item.tags, 1)
    tags = cjson.encode(item.tags)
  end
  call('hset', key,
    'jid', item.jid,
    'klass', item.klass,
    'data', item.data,
    'priority', item.priority or '0',
    'tags', tags,
    'state', item.state,
    'worker', '',
    'expires', '0',
    'queue', queue,
    'retries', retries,
    'remaining', retries,
    'time', stamp, unpack(item.more or none))
  if item.waits then
    keep_delay(key, item.delay, item.checked)
  end
end

local function jids_of(group) -- cold
  local jids = {}
  for i = 1, #group do
    jids[i] = group[i].jid
  end
  return jids
end

-- The shortest delay of a queue's jobs.
local function soonest_of(group) -- cold
  local delay = math.huge
  for i = 1, #group do
    delay = math.min(delay, group[i].delay)
  end
  return delay
end

-- Writes the jobs of a queue and publishes that. Wakes a worker if idle is set, and looks for
-- tracked jobs if tracked is. known_empty says that reserves pass over some queues.
local function write_all(group, idle, tracked, known_empty)
  local queue = group[1].queue
  local quoted = cjson.encode(queue)
  local details = '{"q":' .. quoted .. '}'
  local text = entry(now, '"put"', details)
  local first, last = '{"jid":', ',"event":"put","queue":' .. quoted .. '}'
  if idle or not classic then -- see docs/wake.md
    first, last = '{"queue":' .. quoted .. ',"event":"put","jid":', '}'
  end
  place_all(queue, group)
  for i = 1, #group do
    local item = group[i]
    write_job(queue, item, text)
    publish('log', first .. cjson.encode(item.jid) .. last)
    if item.old and item.old.lost then
      lock_lost(item.jid, item.old.worker)
    end
  end
  know_queue(queue)
  if tracked then
    publish_each_tracked('put', jids_of(group))
  end
  if known_empty then
    note_filled(queue, true)
  end
  if idle then
    wake_several(queue, soonest_of(group), #group)
  end
end

-- Counts the members of batches, and watches the jobs that batches and items with a policy wait for.
local function watch_all(items) -- cold
  if put_batches then
    grow_batches(put_batches)
  end
  for jid, batch in pairs(put_batches or none) do
    if batch.stored and has_option(batch.stored, 'f') then
      watch(jid, job_ended, batch.members)
    end
  end
  for i = 1, #items do
    if items[i].watches then
      watch(items[i].jid, job_ended)
    end
  end
end

-- Notes when the lives of items end, and ends up to two others for each put of a lifetime.
local function enter_lives(items) -- cold
  local entries, ended = {}, 0
  local before, ends -- of the item before: many are put with the same options
  for i = 1, #items do
    local item = items[i]
    local text = item.text or item.given and item.given.o
    if text and has_lifetime(text) then
      if text ~= before then
        local _, values = split_options(text)
        ends, before = end_in_state(values, 'waiting'), text
        ends = ends and exact(ends)
      end
      if ends then
        entries[#entries + 1], entries[#entries + 2] = ends, item.jid
      end
      ended = ended + 1
    end
  end
  each_slice(try, 'zadd', prefix .. 'x:until', entries)
  end_lives(math.min(2 * ended, MAX_ENDED))
end

-- Puts jobs into queues, all or none of them but those that are put under a condition. Returns a
-- list of those that are not put under their jid, as prepare does, or nil. in_order lists them in
-- the order of the call, which decides what they wait for; groups lists them by queue. An item is
-- {queue, jid, klass, data, delay [, depends] [, given] [, more] [, priority] [, retries] [, tags]};
-- given holds the options of the put by name, and more lists other fields and their values.
local function put(worker, groups, in_order)
  must_publish()
  -- One command asks for existing jobs, idle workers, tracked jobs and empty queues: most puts find
  -- none of them. The list has room for one job at once, because growing a table is expensive.
  local keys = {prefix .. 'x:idle', prefix .. 'tracked', prefix .. 'x:empty', false}
  local plain, idle = #groups == 1 and not claiming and not put_batches, false
  for i = 1, #in_order do
    local item = in_order[i]
    local key = job_key(item.jid)
    item.key, keys[i + 3] = key, key
    if item.depends and #item.depends > 0 or item.delay > 0 and #in_order > 1 then
      plain = false
    end
  end
  local existing = count_existing(keys)
  local tracked, known_empty = false, false
  if existing > 0 then
    idle = call('exists', prefix .. 'x:idle') == 1
    tracked = call('exists', prefix .. 'tracked') == 1
    existing = existing - (idle and 1 or 0) - (tracked and 1 or 0)
    known_empty = existing > 0 and call('exists', prefix .. 'x:empty') == 1
    plain = plain and existing == (known_empty and 1 or 0)
  end
  local found
  if not plain then -- a plain put finds none of its jobs
    found = prepare(worker, groups, in_order)
  end
  for g = 1, #groups do
    if groups[g][1] then
      write_all(groups[g], idle, tracked, known_empty)
    end
  end
  if watching or put_batches then
    watch_all(in_order)
  end
  if put_mortal then
    enter_lives(in_order)
  end
  return found
end

-- Checks what few puts say, and returns the fields among it.
local function read_rare(given, checked, delay) -- cold
  local condition = given['if'] or 'idle'
  if condition ~= 'absent' and condition ~= 'finished' and condition ~= 'idle' then
    reject('Put', 'Unknown condition "' .. condition .. '"')
  end
  if given.o then
    given.o = read_options('Put', given.o, checked)
    if has_lifetime(given.o) then
      given.o, put_mortal = read_lifetimes('Put', given.o, delay), true
    end
    given.claim = read_claim('Put', given.o) or nil
    claiming = claiming or given.claim ~= nil
    given.watches = read_policy('Put', given.o)
    given.share = read_share('Put', given.o)
    read_limits('Put', given.o)
    put_turns = put_turns or given.share and {}
    read_replace('Put', given)
  end
  if given.batch then
    put_batches = put_batches or {}
    put_batches[named('Put', 'batch', given.batch)] = {members = {}}
  end
  return more_fields(given.backoff, given.o)
end

-- Adds the options of a put to its item.
local function add_given(item, given) -- cold
  item.given = given
  if given.depends then
    item.depends = read_dependencies('Put', given.depends)
  end
  local at = given.at and number('Put', 'at', given.at)
  if at then
    item.delay, item.at = math.max(at - now, 0), at < now and at
  end
  if given.o or given['if'] or given.backoff or given.batch then
    item.more = read_rare(given, item.checked, item.delay)
  end
  item.priority = given.priority and number('Put', 'priority', given.priority)
  item.retries = given.retries and number('Put', 'retries', given.retries)
  item.tags = given.tags and names('Put', 'tags', given.tags)
end

-- The job whose arguments begin at ARGV[at], with pairs of options from first to last. A caller
-- that has checked the data says so, because parsing it is the most expensive part of putting a
-- large job. Most say nothing else.
--
-- Many jobs have the same retries and options as the one before, if there is any, and nothing else:
-- these are not read again. A unique key, a share and a policy are read for each job.
local function read_put(queue, at, first, last, checked, before)
  local klass, data = ARGV[at + 1], ARGV[at + 2]
  if not klass then
    reject('Put', 'Arg "klass" missing')
  end
  local given = none
  if last == first + 1 and ARGV[first] == 'new' then
    checked = 'new'
  elseif last >= first then
    given = options('Put', first, last)
    checked = given.new and 'new' or checked or given.checked
  end
  if not checked then
    json('Put', 'data', data)
  end
  local delay = 0
  if ARGV[at + 3] ~= '0' then
    delay = number('Put', 'delay', ARGV[at + 3])
  end
  local jid = named('Put', 'jid', ARGV[at])
  -- What all puts set is named at once, because growing a table is expensive: not as nil, which takes
  -- up room without being there.
  local job = {
    queue = queue,
    jid = jid,
    klass = klass,
    data = data,
    delay = delay,
    checked = checked or false,
    key = false, state = false,
  }
  if given == none then
    return job
  end
  local o, retries = given.o, given.retries
  if before and before.o and o == before.o and retries == before.words and delay == before.delay and
    last == first + 3 then
    job.given, job.more, job.retries = before.given, before.more, before.retries
  else
    add_given(job, given)
    given = job.given
  end
  if o and retries and last == first + 3 and not (given.claim or given.share or given.watches) then
    job.o, job.words = o, retries
  end
  return job
end

-- Puts the job whose arguments, from the worker on, begin at ARGV[at]. Returns its jid, or what
-- prepare says about it: the jid and the state of the job that is there.
local function put_from_arguments(at)
  local queue = named('Queue', 'queue', ARGV[at + 1])
  local item = read_put(queue, at + 2, at + 6, #ARGV)
  local items = {item}
  local left = put(ARGV[at], {items}, items)
  if left and left[1] then
    return {left[1][2], left[1][3]}
  end
  return item.jid
end
