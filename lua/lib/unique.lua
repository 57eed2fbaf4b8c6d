-- Unique keys: the option u of a job, {"k": key, "m": mode, "d": seconds}, claims a key, for which
-- no other job can be put meanwhile. Without a mode, the claim lasts until the job is complete, has
-- failed or is gone; with the mode start, it does not hold while the job runs; with for, it lasts
-- for d seconds after the put. See lib/replace.lua for the other members of u.
--
-- A claim is the text "END JID" in x:unique:KEY. Except for the mode for, END is 0, and the job
-- decides whether the claim holds: one that another script has ended, or that has another key by
-- now, holds nothing. Then the key belongs to the job that it was put to follow, if that still
-- holds it: the value a of u, or, if another script has deleted the job, the text in x:before:KEY,
-- which is kept for a week.

-- For how many seconds it is known which job another one follows.
local BEFORE_FOR = '604800'

local function unique_key(name) -- cold
  return prefix .. 'x:unique:' .. name
end

local function before_key(name) -- cold
  return prefix .. 'x:before:' .. name
end

-- The claim of a job with the options text, or nil. That of most is not decoded as JSON.
local function claim_of(text) -- cold
  local key = string.match(text or '', '^u|{"u":{"k":"([^"\\%c]+)"}}$')
  if key then
    return {k = key}
  end
  local _, values = split_options(text)
  local claim = values[UNIQUE]
  if type(claim) == 'table' and type(claim.k) == 'string' and claim.k ~= '' then
    return claim
  end
end

-- The same for options that a put says, which must be right.
local function read_claim(area, text) -- cold
  local claim = has_option(text, UNIQUE) and claim_of(text)
  if has_option(text, UNIQUE) and (not claim or claim.m == 'for' and finite(claim.d, 0) <= 0) then
    reject(area, 'Arg "o" has no unique key: ' .. string.sub(text, 1, 200))
  end
  return claim
end

-- Whether nobody has one of the keys that items claim.
local function all_free(items) -- cold
  local keys = {}
  for i = 1, #items do
    local claim = items[i].given and items[i].given.claim
    keys[#keys + 1] = claim and unique_key(claim.k)
  end
  return count_existing(keys) == 0
end

-- The end of the claim on a key, and the job that it is for.
local function stored_claim(name) -- cold
  local text = try('get', unique_key(name))
  return string.match(type(text) == 'string' and text or '', '^(%S+) (.+)$')
end

-- The claim of a job in a state in which it holds a key, or nil.
local function claim_on(name, state, stored) -- cold
  local claim = claim_of(stored)
  if not claim or claim.k ~= name or not state or state == 'complete' or state == 'failed'
    or claim.m == 'start' and state == 'running' then
    return
  end
  return claim
end

-- A job, its state and what it claims, if it has the key; else nil, its state and its options.
local function kept_by(name, jid) -- cold
  local job = try('hmget', job_key(jid), 'state', 'x:o')
  local claim = claim_on(name, job[1], job[2])
  if claim and not is_over(jid, job[2], job[1]) then
    return jid, job[1], claim
  end
  return nil, job[1], job[2]
end

-- The same of the job that one with these options, which does not have the key any more, was put to
-- follow.
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

-- The job that holds a key, its state, which is empty if the job is gone, and what it claims,
-- unless it holds the key for some time. Nil if the key is free.
local function holder_of(name) -- cold
  local ends, jid = stored_claim(name)
  if not jid then
    return
  elseif ends ~= '0' then
    return finite(ends, 0) > now and jid or nil, try('hmget', job_key(jid), 'state')[1] or ''
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

-- Gives up the key of a job with these options, if it is still the job's: to the job that it was to
-- follow, if that has not ended. A claim for some time outlives the job, unless it was canceled.
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

-- Gives up the keys of items that are complete. Few of them followed another job.
local function release_claims(items) -- cold
  local keys = {}
  for i = 1, #items do
    local jid, stored = items[i].jid, items[i].stored
    local claim = claim_of(stored)
    if claim and claim.a then
      release_claim(jid, stored, 'complete')
    elseif claim and claim.m ~= 'for' and try('get', unique_key(claim.k)) == '0 ' .. jid then
      local n = #keys
      keys[n + 1], keys[n + 2] = unique_key(claim.k), before_key(claim.k)
    end
  end
  each_slice(call, 'del', prefix .. 'x:none', keys)
end

-- The claim of a job whose life begins again: nil if another job holds its key, or if it had the
-- key for some time after its put. A key that is still noted as the job's own is its own again.
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
