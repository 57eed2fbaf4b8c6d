-- Unique keys: the option u of a job, {"k": key, "m": mode, "d": seconds}, claims a key, for which
-- no other job can be put meanwhile. Without a mode, the claim lasts until the job is complete, has
-- failed or is gone; with the mode start, it does not hold while the job runs; with for, it lasts
-- for d seconds after the put.
--
-- A claim is the text "END JID" in x:unique:KEY. Except for the mode for, END is 0, and the job
-- decides whether the claim holds: one that another script has ended, or that has another key by
-- now, holds nothing.

-- @include "lib/base.lua"
-- @include "lib/check.lua"
-- @include "lib/clock.lua"
-- @include "lib/lifetimes.lua"
-- @include "lib/options.lua"

local function unique_key(name) -- cold
  return prefix .. 'x:unique:' .. name
end

-- What a job with the options text claims, or nil.
local function claim_of(text) -- cold
  local _, values = split_options(text)
  local claim = values.u
  if type(claim) == 'table' and type(claim.k) == 'string' and claim.k ~= '' then
    return claim
  end
end

-- The same for options that a put says, which must be right.
local function read_claim(area, text) -- cold
  local claim = has_option(text, 'u') and claim_of(text)
  if has_option(text, 'u') and (not claim or claim.m == 'for' and finite(claim.d, 0) <= 0) then
    reject(area, 'Arg "o" has no unique key: ' .. string.sub(text, 1, 200))
  end
  return claim
end

-- The end of the claim on a key, and the job that it is for.
local function stored_claim(name) -- cold
  local text = try('get', unique_key(name))
  return string.match(type(text) == 'string' and text or '', '^(%S+) (.+)$')
end

-- The job that holds a key, and its state, which is empty if the job is gone. Nil if the key is
-- free.
local function holder_of(name) -- cold
  local ends, jid = stored_claim(name)
  if not jid then
    return
  end
  local job = try('hmget', job_key(jid), 'state', 'x:o')
  local state, claim = job[1] or '', claim_of(job[2])
  if ends ~= '0' then
    return finite(ends, 0) > now and jid or nil, state
  end
  local ended = state == '' or state == 'complete' or state == 'failed'
  if ended or not claim or claim.k ~= name or claim.m == 'start' and state == 'running'
    or is_over(jid, job[2], state) then
    return
  end
  return jid, state
end

local function write_claim(jid, claim) -- cold
  local key, seconds = unique_key(claim.k), finite(claim.d)
  if claim.m == 'for' and seconds then
    call('set', key, exact(now + seconds) .. ' ' .. jid,
      'PX', string.format('%.0f', math.ceil(seconds * 1000)))
  else
    call('set', key, '0 ' .. jid)
  end
end

-- Gives up the key of a job with these options, if it is still the job's. A claim for some time
-- goes on when the job has ended, unless it was canceled.
local function release_claim(jid, stored, state) -- cold
  local claim = claim_of(stored)
  if not claim then
    return
  end
  local ends, holder = stored_claim(claim.k)
  if holder == jid and (ends == '0' or state == 'canceled') then
    call('del', unique_key(claim.k))
  end
end

-- What a job whose life begins again claims: nil if another job holds its key, or if it had the key
-- for some time after its put.
local function claim_again(jid, stored) -- cold
  local claim = claim_of(stored)
  if claim and claim.m ~= 'for' and (holder_of(claim.k) or jid) == jid then
    return claim
  end
end
