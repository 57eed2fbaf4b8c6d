-- Reading existing jobs before putting them again: all that can fail, before the first write.

local function named_twice(jid) -- cold
  return new_problem('invalid', jid, 'is named twice')
end

-- If a put repeats its job's unique key, keeps the job that this one follows.
local function keep_followed(given, old) -- cold
  local claim = given.claim
  if claim and old and old.a and old.k == claim.k then
    claim.a = old.a
    given.o = with_value(given.o, UNIQUE, claim)
  end
end

-- Merges the options of an existing job and of the put. If the job begins a new life, or is
-- running, it claims its unique key again.
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
  puts.turns = puts.turns or item.share and {later = {}}
end

-- Reads an existing job to overwrite. Fields missing in the item keep their values.
local function read_old(puts, item) -- cold
  local key, depends = item.key, item.depends
  local old = named_fields(call, key, {'priority', 'tags', 'queue', 'state', 'failure', 'retries',
    'worker', 'history', 'grace', 'x:o'})
  old.tags, old.ended = names_of(old.tags), none
  old.stored = old['x:o']
  item.old = old
  item.priority, item.tags = item.priority or old.priority, item.tags or old.tags
  item.retries = item.retries or old.retries
  if old.stored then
    keep_options(puts, item, old.stored, old.state)
  end
  if #depends == 0 then
    item.waits = call('scard', key .. '-dependencies') > 0
    return
  end
  local before = call('smembers', key .. '-dependencies')
  item.old.ended = difference(before, depends, 1)
  item.waits = #item.old.ended < #before
end

-- Reports whether a put under a condition leaves an existing job in this state unchanged.
local function is_left_alone(condition, state)
  if condition == 'finished' then
    return state ~= 'complete' and state ~= 'failed'
  elseif condition == 'idle' then
    return state == 'running'
  end
  return true
end

-- Checks whether another job holds an item's unique key, and if so, whether the item replaces it.
-- before, claims and unheld are as in read_before.
local function read_holder(item, before, claims, unheld) -- cold
  local given = item.given
  local claim, earlier, holder, state, held = given.claim, claims[given.claim.k], nil, nil, nil
  if not unheld then
    holder, state, held = holder_of(claim.k)
  end
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
      raise('Put', named_twice(holder))
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

-- Reads a job's old state and dependencies. before has the jobs put earlier in the call. claims has
-- the items that claim unique keys, or did when the same call was sent before. If the put leaves
-- the job unchanged, or its unique key is held, sets only left: the state of the existing job.
-- fresh means none of the jobs exists, and unheld that no job holds any of the keys.
local function read_before(puts, item, before, claims, fresh, unheld)
  if not fresh and call('exists', item.key) == 1 then
    local new = item.checked == 'new' or item.given.replace
    local condition = new and 'new' or item.given['if']
    if before[item.jid] then
      raise('Put', named_twice(item.jid))
    end
    local state, stored = unpack(condition and call('hmget', item.key, 'state', 'x:o') or none)
    local gone = not new and stored and is_over(item.jid, stored, state) -- not deleted yet
    if condition and is_left_alone(condition, state) and not gone then
      item.left = state or ''
      if new and item.given.claim then
        claims[item.given.claim.k] = item
      end
      return
    end
    read_old(puts, item)
  end
  if item.given.claim then
    read_holder(item, before, claims, unheld)
    if item.left then
      return
    end
  elseif item.claim and claims[item.claim.k] then
    item.claim = nil -- the job would hold the key again, but an earlier put claims it
  elseif item.claim then
    claims[item.claim.k] = item
  end
  if #item.depends == 0 then
    item.others = item.others or none
  elseif not item.others then
    local others, problem = needed(item.jid, item.depends, 1, before, item.given.strict)
    raise_any('Put', problem)
    item.others, item.waits = others, item.waits or #others > 0
  end
  item.watches = item.waits and (item.watches or item.given.watches)
  puts.watching = puts.watching or item.watches
end
