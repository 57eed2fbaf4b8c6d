-- holder: which job holds a unique key.
--
-- KEYS[1]  the namespace prefix
-- ARGV     NOW, key
-- Returns  its jid, or nil
-- Errors   Holder()
-- Cost     2 commands
-- Repeat   safe
-- Needs    get hmget lrange time

local function required(area, name, text)
  if not text then
    local words = {
      Job = 'no jid provided', Recurring = 'no jid provided', Queue = 'no queue name provided',
    }
    do
      local area, message = area, words[area] or 'Arg "' .. name .. '" missing'
      error(area .. '(): ' .. message)
    end
  end
  return text
end

local call = redis.call
local prefix = KEYS[1]

local stamp, usual = ARGV[1], true
if stamp == '' then
  local time = call('time')
  stamp = time[1] .. string.format('.%06d', time[2])
else
  usual = stamp and string.find(stamp, '^%d+%.?%d*$')
end
local now = usual and stamp + 0 or tonumber(stamp)
if not now or now - now ~= 0 then
  error('Arg "now" missing or not a number: ' .. tostring(stamp))
end
if not usual then
  stamp = string.format('%.17g', now)
end




local function holder_of(name)
local try = redis.pcall
local function finite(text, default)
  local n = text and tonumber(text)
  if n and n - n == 0 then
    return n
  end
  return default
end
local function split_options(text)
  local letters, body = string.match(text or '', '^(%a+)|(.*)$')
  local ok, values = pcall(cjson.decode, body or '')
  if ok and type(values) == 'table' then
    return letters, values
  end
  return '', {}
end
local function earlier(a, b)
  return a and b and math.min(a, b) or a or b
end
local function end_in_state(values, state, since)
  local gone, complete, failed = finite(values.t), finite(values.k), finite(values.K)
  if state == 'complete' then
    return earlier(gone, complete and since + complete)
  elseif state == 'failed' and failed then
    return failed >= 0 and since + failed or nil
  elseif state ~= 'failed' and state ~= 'running' then
    return earlier(gone, finite(values.s))
  end
  return gone
end
local function is_last_put(jid, at)
  local entries = try('lrange', prefix .. 'j:' .. jid .. '-history', 0, -1)
  for i = #entries, 1, -1 do
    local when = string.match(entries[i], '^%[(%-?%d+)[%d.]*,"put"')
    if when then
      return tonumber(when) <= finite(at, 0)
    end
  end
  return true
end
local function end_of_life(jid, stored, state, since)
  local _, values = split_options(stored)
  local ends = end_in_state(values, state, since)
  if ends and ends <= now and (values.s or values.t) and not is_last_put(jid, values.put) then
    values.s, values.t = nil, nil
    ends = end_in_state(values, state, since)
  end
  return ends
end
local function is_over(jid, stored, state)
  return (string.find(stored, '^%a*[stkK]') ~= nil) and (end_of_life(jid, stored, state, now) or math.huge) <= now
end
local function unique_key(name)
  return prefix .. 'x:unique:' .. name
end
local function before_key(name)
  return prefix .. 'x:before:' .. name
end
local function claim_of(text)
  local _, values = split_options(text)
  local claim = values.u
  if type(claim) == 'table' and type(claim.k) == 'string' and claim.k ~= '' then
    return claim
  end
end
local function stored_claim(name)
  local text = try('get', unique_key(name))
  return string.match(type(text) == 'string' and text or '', '^(%S+) (.+)$')
end
local function claim_on(name, state, stored)
  local claim = claim_of(stored)
  if not claim or claim.k ~= name or not state or state == 'complete' or state == 'failed'
    or claim.m == 'start' and state == 'running' then
    return
  end
  return claim
end
local function kept_by(name, jid)
  local job = try('hmget', prefix .. 'j:' .. jid, 'state', 'x:o')
  local claim = claim_on(name, job[1], job[2])
  if claim and not is_over(jid, job[2], job[1]) then
    return jid, job[1], claim
  end
  return nil, job[1], job[2]
end
local function kept_before(name, stored)
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
  local ends, jid = stored_claim(name)
  if not jid then
    return
  elseif ends ~= '0' then
    return finite(ends, 0) > now and jid or nil, try('hmget', prefix .. 'j:' .. jid, 'state')[1] or ''
  end
  local holder, state, claim = kept_by(name, jid)
  if holder then
    return holder, state, claim
  end
  return kept_before(name, claim)
end

return (holder_of(required('Holder', 'key', ARGV[2])))

