-- Unique keys. The option u of a job, {"k": key, "m": mode, "d": seconds}, claims a key: meanwhile,
-- no other job can be put with it. Without a mode, the claim lasts until the job is complete,
-- failed or gone; with the mode start, it does not hold while the job runs; with for, it lasts for
-- d seconds after the put. For the other members of u, see lib/replace.lua.
--
-- A claim is the text "END JID" in x:unique:KEY. Except for the mode for, END is 0, and the job
-- decides whether the claim is valid: a job ended by another script, or with another key by now,
-- holds nothing. The key then belongs to the job's predecessor, the job it was put to follow, if
-- that still holds the key: the value a of u or, if another script has deleted the job, the text in
-- x:before:KEY, which is kept for a week.
--
-- x:refused has scheduled jobs with keys that refused puts, by the time of the last put refused.

-- The seconds for which a job's predecessor is kept.
local BEFORE_FOR = '604800'

-- The maximum number of jobs in x:refused, and the seconds for which it is kept after a new job.
local REFUSED_MOST, REFUSED_FOR = 100, '86400'

local function unique_key(name) -- cold
  return prefix .. 'x:unique:' .. name
end

local function before_key(name) -- cold
  return prefix .. 'x:before:' .. name
end

-- Returns the claim in the options text, or nil. Most claims need no decoding of JSON.
local function claim_of(text) -- cold
  local key = string.match(text or '', '^u|{"u":{"k":"([^"\\%c]+)"}}$')
  if key then
    return {k = key}
  end
  local claim = split_options(text)[UNIQUE]
  if type(claim) == 'table' and type(claim.k) == 'string' and claim.k ~= '' then
    return claim
  end
end

-- The same for the options of a put, which must be valid.
local function read_claim(area, text) -- cold
  local claim = claim_of(text)
  if not claim or claim.m == 'for' and finite(claim.d, 0) <= 0 then
    reject(area, 'Arg "o" has no unique key: ' .. string.sub(text, 1, 200))
  end
  return claim
end

-- Reports whether all keys claimed by items are free.
local function all_free(items) -- cold
  local keys = {}
  for i = 1, #items do
    local claim = items[i].given and items[i].given.claim
    keys[#keys + 1] = claim and unique_key(claim.k)
  end
  return count_existing(keys) == 0
end

-- Returns the end of the claim on a key, and the jid in it.
local function stored_claim(name) -- cold
  local text = try('get', unique_key(name))
  return string.match(type(text) == 'string' and text or '', '^(%S+) (.+)$')
end

-- Returns a job, its state and claim, if it holds the key; else nil, its state and its options.
local function kept_by(name, jid) -- cold
  local state, stored = unpack(try('hmget', job_key(jid), 'state', 'x:o'))
  local claim = claim_of(stored)
  local holds = claim and claim.k == name and state and state ~= 'complete' and state ~= 'failed'
    and not (claim.m == 'start' and state == 'running')
  if holds and not is_over(jid, stored, state) then
    return jid, state, claim
  end
  return nil, state, stored
end

-- Like kept_by, for the predecessor of a job with these options that no longer holds the key.
local function kept_before(name, stored) -- cold
  local claim = claim_of(stored)
  local other
  if claim and claim.k == name then
    other = claim.a
  else
    other = try('get', before_key(name))
  end
  if type(other) == 'string' then
    local jid, state, theirs = kept_by(name, other)
    return jid and theirs.m ~= 'for' and jid or nil, state, theirs
  end
end

-- Returns the holder of a key, its state, empty if the job is gone, and, unless it holds the key
-- for some time, the claim. Returns nil if the key is free.
local function holder_of(name) -- cold
  local ends, jid = stored_claim(name)
  if not jid then
    return
  elseif ends ~= '0' then
    return finite(ends, 0) > now and jid or nil, unpack(try('hmget', job_key(jid), 'state')) or ''
  end
  local holder, state, claim = kept_by(name, jid)
  if holder then
    return holder, state, claim
  end
  return kept_before(name, claim)
end

local function write_claim(jid, claim) -- cold
  local key, seconds = unique_key(claim.k), finite(claim.d)
  if claim.m == 'for' and seconds then
    call('set', key, exact(now + seconds) .. ' ' .. jid,
      'PX', string.format('%.0f', math.ceil(seconds * 1000)))
  else
    call('set', key, '0 ' .. jid)
  end
  if claim.a then
    call('set', before_key(claim.k), claim.a, 'EX', BEFORE_FOR)
  end
end

-- Writes the claims of items. Most claims hold until the job ends.
local function write_claims(items) -- cold
  local set = {}
  for i = 1, #items do
    local jid, claim = items[i].jid, items[i].claim
    if claim and not claim.a and claim.m ~= 'for' then
      add_pair(set, unique_key(claim.k), '0 ' .. jid)
    elseif claim then
      write_claim(jid, claim)
    end
  end
  if #set > 0 then
    call('mset', unpack(set))
  end
end

-- Releases the key of a job with these options, if still held, to the job's predecessor if that has
-- not ended. A claim for some time outlives the job, unless canceled.
local function release_claim(jid, stored, state) -- cold
  local claim = claim_of(stored)
  if not claim then
    return
  end
  local ends, holder = stored_claim(claim.k)
  if holder ~= jid or ends ~= '0' and state ~= 'canceled' then
    return
  end
  local other, _, theirs = kept_before(claim.k, stored)
  if other then
    write_claim(other, theirs)
  else
    call('del', unique_key(claim.k), before_key(claim.k))
  end
end

-- Releases the keys of complete items. Few of these have a predecessor.
local function release_claims(items) -- cold
  local claims, keys, jids, gone = {}, {}, {}, {}
  for i = 1, #items do
    local jid, stored = items[i].jid, items[i].stored
    local claim = claim_of(stored)
    if claim and claim.a then
      release_claim(jid, stored, 'complete')
    elseif claim and claim.m ~= 'for' then
      local n = #keys + 1
      claims[n], keys[n], jids[n] = claim, unique_key(claim.k), jid
    end
  end
  local held = #keys > 0 and try('mget', unpack(keys))
  for n = 1, #keys do
    if held[n] == '0 ' .. jids[n] then
      add_pair(gone, keys[n], before_key(claims[n].k))
    end
  end
  each_slice(call, 'del', prefix .. 'x:none', gone)
end

-- Returns the claim of a job that begins a new life, or nil if another job holds its key, or if it
-- held the key for some time after its put. A key still noted as the job's belongs to it again.
local function claim_again(jid, stored) -- cold
  local claim = claim_of(stored)
  if not claim or claim.m == 'for' then
    return
  end
  local _, noted = stored_claim(claim.k)
  if noted == jid or (holder_of(claim.k) or jid) == jid then
    return claim
  end
end

-- Notes a put refused because of a scheduled job's key.
local function note_refused(jid) -- cold
  local key = prefix .. 'x:refused'
  if try('zadd', key, stamp, jid) == 1 then
    try('zremrangebyrank', key, 0, -1 - REFUSED_MOST)
    try('expire', key, REFUSED_FOR)
  end
end
