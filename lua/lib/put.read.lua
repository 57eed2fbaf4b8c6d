-- Reading the arguments of a put.

-- Returns the puts of a call. The options of the next job are the pairs from ARGV[from] to
-- ARGV[to]. checked means the caller has checked the data: parsing is the most expensive part of
-- putting a large job.
local function new_puts(worker, checked)
  return {
    worker = worker, checked = checked, from = 1, to = 0, items = {}, groups = {},
    claiming = false, watching = false, mortal = false, turns = false, batches = false, known = {},
  }
end

-- Returns fields that few puts set, with their values.
local function more_fields(backoff, text) -- cold
  local more = {}
  if backoff then
    more[1], more[2] = 'backoff', backoff
  end
  if text and text ~= '' then
    add_pair(more, 'x:o', text)
  end
  return more
end

-- Checks the rare arguments of a put, and returns fields to set.
local function read_rare(puts, given, checked, delay) -- cold
  local condition = given['if'] or 'idle'
  if condition ~= 'absent' and condition ~= 'finished' and condition ~= 'idle' then
    reject('Put', 'Unknown condition "' .. condition .. '"')
  end
  if given.o then
    given.o = read_options('Put', given.o, checked)
    local has = letters_of(given.o)
    if has.mortal then
      given.o, puts.mortal = read_lifetimes('Put', given.o, delay), true
    end
    if has[UNIQUE] then
      given.claim, puts.claiming = read_claim('Put', given.o), true
    end
    if has[POLICY] then
      given.watches = read_policy('Put', given.o)
    end
    if has[FAIR] then
      given.share, puts.turns = read_share('Put', given.o), puts.turns or {later = {}}
    end
    if has[LIMITED] then
      read_limits('Put', given.o)
    end
    if given.replace then
      read_replace('Put', given)
    end
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
  item.depends = given.depends and read_dependencies('Put', given.depends)
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

-- Notes an item for later ones with its delay and options, except for unique keys and times.
local function note_options(puts, item, delay) -- cold
  local first, last = puts.from, puts.to
  if item.given.claim or item.given.at then
    return
  elseif delay == '0' and last == first + 1 and ARGV[first] == 'o' then
    puts.known[ARGV[last]] = item
  else
    puts.like, puts.delay, puts.first, puts.last = item, delay, first, last
  end
end

-- Returns a noted item with the same delay and options, or nil.
local function item_like(puts, delay) -- cold
  local first, last = puts.from, puts.to
  if delay == '0' and last == first + 1 and ARGV[first] == 'o' then
    return puts.known[ARGV[last]]
  elseif not puts.like or puts.delay ~= delay or puts.last - puts.first ~= last - first then
    return nil
  end
  local from = puts.first
  for i = 0, from == first and -1 or last - first do
    if ARGV[first + i] ~= ARGV[from + i] then
      return nil
    end
  end
  return puts.like
end

-- Returns a job to put. Most jobs have no options, and many have the same options as an earlier
-- job, which are not read again.
local function read_put(puts, queue, jid, klass, data, delay)
  required('Put', 'klass', klass)
  local given, before, checked, first, last = none, nil, puts.checked, puts.from, puts.to
  if last == first + 1 and ARGV[first] == 'new' then
    checked = 'new'
  elseif last >= first then
    before = item_like(puts, delay)
    given = before and before.given or options('Put', first, last)
    checked = given.new and 'new' or checked or given.checked
  end
  if not checked then
    json('Put', 'data', data)
  end
  local seconds = 0
  if delay ~= '0' then
    seconds = number('Put', 'delay', delay)
  end
  required('Put', 'jid', jid ~= '' and jid)
  -- All fields are named at once, because growing a table is expensive, but not as nil, which takes
  -- up room without existing.
  if given == none then
    return {
      queue = queue, jid = jid, klass = klass, data = data, delay = seconds,
      checked = checked or false, key = false, state = false,
    }
  end
  local job = {
    queue = queue, jid = jid, klass = klass, data = data, delay = seconds,
    checked = checked or false, key = false, state = false,
    given = given, more = before and before.more, depends = before and before.depends,
    priority = before and before.priority, retries = before and before.retries,
    tags = before and before.tags,
  }
  if not before then
    add_given(puts, job, given)
    note_options(puts, job, delay)
  end
  return job
end
