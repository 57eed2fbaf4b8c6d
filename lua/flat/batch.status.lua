-- batch.status: how far a batch is, and some of the members that it waits for, in no particular
-- order.
--
-- KEYS[1]  the namespace prefix
-- ARGV     NOW, jid [, the cursor of the last call or '']
-- Returns  JSON: the state of the batch's own job; open; total, how many members it has got;
--          pending, how many of them it waits for; failed, an object with the groups of those whose
--          failure was told to it; with a cursor also cursor and jids: about 500 of those that it
--          waits for, and a cursor, which is empty at the end
-- Errors   Batch.status() when there is no such job, or it is not a batch
-- Cost     3 commands, 4 with a cursor
-- Repeat   safe
-- Needs    hmget scard sismember sscan time

local call = redis.call
local prefix = KEYS[1]
local function finite(text, default)
  local n = text and tonumber(text)
  if n and n - n == 0 then
    return n
  end
  return default
end

local none = {}


local seldom1




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







local function array(list)
  if #list == 0 then
    return '[]'
  end
  return cjson.encode(list)
end


seldom1 = function(which, ...)
if which == 'split_options' then
local text = ...
  local letters, body = string.match(text or '', '^(%a+)|(.*)$')
  local ok, values = pcall(cjson.decode, body or '')
  if ok and type(values) == 'table' then
    return letters, values
  end
  return '', {}
elseif which == 'is_batch' then
local stored = ...
local function has_option(text, letter)
  return string.find(text, '^%a*' .. letter) ~= nil
end
  return stored and has_option(stored, 'b')
elseif which == 'scan_cursor' then
local area, cursor = ...
local function reject(area, message)
  error(area .. '(): ' .. message)
end
  if cursor == '' then
    return '0'
  elseif not string.find(cursor, '^%d+$') or tonumber(cursor) >= 2 ^ 64 then
    reject(area, 'Arg "cursor" is no cursor: ' .. string.sub(cursor, 1, 200))
  end
  return cursor
elseif which == 'next_part' then
local reply = ...
  return reply[1] == '0' and '' or reply[1]
end
end

local jid
do
  local area, name, text = 'Job', 'jid', ARGV[2]
  if not text then
    local words = {
      Job = 'no jid provided', Recurring = 'no jid provided', Queue = 'no queue name provided',
    }
    do
      local area, message = area, words[area] or 'Arg "' .. name .. '" missing'
      error(area .. '(): ' .. message)
    end
  end
  jid = text
end
local cursor = ARGV[3] and seldom1('scan_cursor', 'Batch.status', ARGV[3])
local job = call('hmget', prefix .. 'j:' .. jid, 'state', 'x:o')
if not job[1] then
  do
    local area, message = 'Batch.status', 'Job ' .. jid .. ' does not exist'
    error(area .. '(): ' .. message)
  end
elseif not seldom1('is_batch', job[2]) then
  do
    local area, message = 'Batch.status', 'Job ' .. jid .. ' is not a batch'
    error(area .. '(): ' .. message)
  end
end
local dependencies = prefix .. 'j:' .. jid .. '-dependencies'
local open = call('sismember', dependencies, 'x:open') == 1
local pending = call('scard', dependencies) - (open and 1 or 0)
local function members()
  local found, jids = call('sscan', dependencies, cursor, 'COUNT', 500), {}
  for _, other in ipairs(found[2]) do
    if other ~= 'x:open' then
      jids[#jids + 1] = other
    end
  end
  return ',"cursor":' .. cjson.encode(seldom1('next_part', found)) .. ',"jids":' .. array(jids)
end
local _, values = seldom1('split_options', job[2])
local own = type(values.b) == 'table' and values.b or none
local failed = type(values.f) == 'table' and values.f.failed
return '{"state":' .. cjson.encode(job[1]) .. ',"open":' .. tostring(open) ..
  ',"total":' .. string.format('%.17g', (finite(own.n, 0))) .. ',"pending":' .. string.format('%.17g', pending) ..
  ',"failed":' .. (type(failed) == 'table' and cjson.encode(failed) or '{}') ..
  (cursor and members() or '') .. '}'

