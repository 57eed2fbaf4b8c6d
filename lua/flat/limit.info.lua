-- limit.info: what a limit allows, and who uses it; or the max-rate of a queue.
--
-- KEYS[1]  the namespace prefix
-- ARGV     NOW, name, or '', queue
-- Returns  an array of texts: concurrency, rate and per, each 0 if there is none; 1 if the definition
--          is the limit's own, else 0; until when it is held, or 0; when the next job may start, or 0
--          if that is now or when a slot is free; how many jobs are parked; and the jids of the jobs
--          that run, at most 1000. Of a max-rate only the rate and the time of the next start are told
-- Errors   Limit()
-- Cost     6 commands, and 3 for each job whose lock may have ended; a max-rate 2
-- Repeat   safe
-- Needs    hexists hget hmget lrange time zcard zrange zscore

local call = redis.call
local prefix = KEYS[1]
local try = redis.pcall
local function finite(text, default)
  local n = text and tonumber(text)
  if n and n - n == 0 then
    return n
  end
  return default
end

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








local seldom1





seldom1 = function(which, ...)
if which == 'limit_key' then
local name, part = ...
  return prefix .. 'x:limit:' .. name .. ':' .. part
elseif which == 'check_limit_name' then
local area, name = ...
local function reject(area, message)
  error(area .. '(): ' .. message)
end
  if type(name) ~= 'string' or name == '' or #name > 200 or string.find(name, '[%c%s]') then
    reject(area, 'This is no name of a limit: ' .. string.sub(tostring(name), 1, 200))
  end
  return name
elseif which == 'read_limit' then
local name, most = ...
local function parse_limit(text)
  local max, rate, per = string.match(text or '', '^(%d+) (%d+) (%S+)$')
  max, rate, per = finite(max, 0), finite(rate, 0), finite(per, 0)
  return max, per > 0 and rate or 0, per
end
  local family = string.match(name, '^([^/]+)/.') or name
  local stored = try('hmget', prefix .. 'x:limits', name, name .. ' hold', family)
  local max, rate, per = parse_limit(stored[1] or stored[3])
  local hold = finite(stored[2], 0)
  local limit = {
    name = name, max = max, rate = rate, per = per, hold = hold > now and hold,
    passed = stored[2] and hold <= now, most = most, list = seldom1('limit_key', name, 'starts'),
    room = math.huge, started = 0, noted = 0, held = {},
  }
  if max > 0 then
    limit.room = max - finite(try('zcard', seldom1('limit_key', name, 'held')), 0)
  end
  return limit
elseif which == 'read_max_rate' then
local queue, text, most = ...
  local rate, per = string.match(type(text) == 'string' and text or '', '^(%d+)/(%S+)$')
  rate, per = finite(rate, 0), finite(per, 0)
  if rate > 0 and per > 0 then
    return {rate = rate, per = per, list = prefix .. 'x:rate:' .. queue, most = most, started = 0}
  end
elseif which == 'rate_opens' then
local limit = ...
local function noted_time(text)
  local time = finite(text)
  return time and time <= now + 1 and time or nil
end
  local place = limit.rate - limit.started - 1
  if place < 0 then
    return now + limit.per
  elseif not limit.from or place < limit.from then
    limit.from = math.max(place - limit.most + 1, 0)
    limit.times = try('lrange', limit.list, limit.from, place)
  end
  local time = noted_time(limit.times[place - limit.from + 1])
  local opens = time and time + limit.per
  return opens and opens > now and opens or nil
elseif which == 'slot_ends' then
local jid = ...
local function has_option(text, letter)
  return string.find(text, '^%a*' .. letter) ~= nil
end
  local job = try('hmget', prefix .. 'j:' .. jid, 'state', 'queue', 'grace', 'x:o')
  if job[1] ~= 'running' or not job[2] then
    return
  end
  local ends = finite(try('zscore', prefix .. 'q:' .. job[2] .. '-locks', jid))
  if not ends or ends > now or tonumber(job[3]) == 1 or has_option(job[4] or '', 'l') then
    return ends
  end
  return ends + finite(try('hget', prefix .. 'config', 'grace-period'), 10)
end
end

local name = required('Limit', 'name', ARGV[2])
if name == '' and ARGV[3] then
  do
    local queue = ARGV[3]
    local limit = seldom1('read_max_rate', queue, try('hget', prefix .. 'config', queue .. '-max-rate'), 1)
    local opens = limit and seldom1('rate_opens', limit) or 0
    return {
      '0', string.format('%.17g', (limit and limit.rate or 0)), string.format('%.17g', (limit and limit.per or 0)), '0', '0', string.format('%.17g', opens), '0',
    }
  end
end
seldom1('check_limit_name', 'Limit', name)
local limit = seldom1('read_limit', name, 1)
local opens = limit.hold or limit.rate > 0 and seldom1('rate_opens', limit) or 0
local reply = {
  string.format('%.17g', limit.max), string.format('%.17g', limit.rate), string.format('%.17g', limit.per),
  try('hexists', prefix .. 'x:limits', name) == 1 and '1' or '0',
  string.format('%.17g', (limit.hold or 0)), string.format('%.17g', opens), string.format('%.17g', (finite(try('zcard', seldom1('limit_key', name, 'wait')), 0))),
}
local held = try('zrange', seldom1('limit_key', name, 'held'), 0, 999, 'WITHSCORES')
for i = 1, limit.max > 0 and #held or 0, 2 do
  local ends = finite(held[i + 1], 0)
  if ends > now or (seldom1('slot_ends', held[i]) or 0) > now then
    reply[#reply + 1] = held[i]
  end
end
return reply

