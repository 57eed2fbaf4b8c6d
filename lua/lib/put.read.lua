-- Reading a put: its arguments, and the jobs that are there already. Everything that can fail is
-- read before the first write.

local function new_puts(worker)
  return {
    worker = worker, items = {}, groups = {},
    claiming = false, watching = false, mortal = false, turns = false, batches = false,
  }
end

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

-- Checks what few puts say, and returns the fields among it.
local function read_rare(puts, given, checked, delay) -- cold
  local condition = given['if'] or 'idle'
  if condition ~= 'absent' and condition ~= 'finished' and condition ~= 'idle' then
    reject('Put', 'Unknown condition "' .. condition .. '"')
  end
  if given.o then
    given.o = read_options('Put', given.o, checked)
    if has_lifetime(given.o) then
      given.o, puts.mortal = read_lifetimes('Put', given.o, delay), true
    end
    given.claim = read_claim('Put', given.o) or nil
    puts.claiming = puts.claiming or given.claim ~= nil
    given.watches = read_policy('Put', given.o)
    given.share = read_share('Put', given.o)
    read_limits('Put', given.o)
    puts.turns = puts.turns or given.share and {}
    read_replace('Put', given)
  end
  if given.batch then
    puts.batches = puts.batches or {}
    puts.batches[named('Put', 'batch', given.batch)] = {members = {}}
  end
  return more_fields(given.backoff, given.o)
end

-- Adds the options of a put to its item.
local function add_given(puts, item, given) -- cold
  item.given = given
  if given.depends then
    item.depends = read_dependencies('Put', given.depends)
  end
  local at = given.at and number('Put', 'at', given.at)
  if at then
    item.delay, item.at = math.max(at - now, 0), at < now and at
  end
  if given.o or given['if'] or given.backoff or given.batch then
    item.more = read_rare(puts, given, item.checked, item.delay)
  end
  item.priority = given.priority and number('Put', 'priority', given.priority)
  item.retries = given.retries and number('Put', 'retries', given.retries)
  item.tags = given.tags and names('Put', 'tags', given.tags)
end

-- The job whose arguments begin at ARGV[at], with pairs of options from first to last. A caller
-- that has checked the data sets checked, because parsing it is the most expensive part of putting
-- a large job. Most say nothing else.
--
-- Many jobs have the same retries and options as the one before, if there is any, and nothing else:
-- these are not read again. A unique key, a share and a policy are read for each job.
local function read_put(puts, queue, at, first, last, checked, before)
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
  -- Fields that all puts set are named at once, because growing a table is expensive: not as nil,
  -- which takes up room without being there.
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
    add_given(puts, job, given)
    given = job.given
  end
  if o and retries and last == first + 3 and not (given.claim or given.share or given.watches) then
    job.o, job.words = o, retries
  end
  return job
end

-- Has a put that says again which key its job claims keep the job that this one follows.
local function keep_followed(given, old) -- cold
  local claim = given.claim
  if claim and old and old.a and old.k == claim.k then
    claim.a = old.a
    given.o = with_value(given.o, UNIQUE, claim)
  end
end

-- Merges the options of an existing job with those of the put. If its life begins again, or it
-- runs, it claims its unique key again.
local function keep_options(puts, item, old, state) -- cold
  local ended = state == 'complete' or state == 'failed'
  local over = not ended and is_over(item.jid, old, 'waiting')
  if has_option(old, UNIQUE) then
    item.claimed = old
    keep_followed(item.given, claim_of(old))
    local again = ended or over or state == 'running'
    item.claim = again and not item.given.claim and claim_again(item.jid, old)
  end
  item.watches = has_option(old, POLICY)
  item.old.limits = has_option(old, LIMITED) and old
  local given = item.given
  local drop = given.drop or ''
  if over then
    drop = drop .. EXPIRING
  end
  if has_option(old, HAS_PROGRESS) then
    drop = drop .. HAS_PROGRESS -- progress ends with any put
  end
  local text = merge_options(old, {o = given.o, drop = drop}, ended)
  if has_lifetime(text or old) then
    text = renew_lifetimes(text or old)
    puts.mortal = true
  end
  item.options = text or old
  if text then
    item.text = text
    item.more = more_fields(item.given.backoff, text)
    item.old.optionless = text == ''
  end
  item.share = has_option(text or old, FAIR) and (text or old)
  puts.turns = puts.turns or item.share and {}
end

-- Reads an existing job that will be overwritten. Fields that the item lacks stay as they were.
local function read_old(puts, item) -- cold
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
    keep_options(puts, item, fields[10], fields[4])
  end
  if #depends == 0 then
    item.waits = call('scard', key .. '-dependencies') > 0
    return
  end
  local before = call('smembers', key .. '-dependencies')
  item.old.ended = difference(before, depends, 1)
  item.waits = #item.old.ended < #before
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

-- Whether the life of a job that is there, of which state and options were found, has ended,
-- although it is not deleted yet.
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
local function read_before(puts, item, before, claims)
  if call('exists', item.key) == 1 then
    local new = item.checked == 'new' or item.given.replace
    local condition = new and 'new' or item.given['if']
    if before[item.jid] then
      reject('Put', 'Job ' .. item.jid .. ' is named twice')
    end
    local found = condition and call('hmget', item.key, 'state', 'x:o') or none
    if condition and is_left_alone(condition, found[1]) and
      (new or not is_gone(item.jid, found)) then
      item.left = found[1] or ''
      if new and item.given.claim then
        claims[item.given.claim.k] = item
      end
      return
    end
    read_old(puts, item)
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
  puts.watching = puts.watching or item.watches
end
