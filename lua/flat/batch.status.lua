-- batch.status: how far a batch is, and some of the members that it waits for, in no particular
-- order.
--
-- KEYS[1]  the namespace prefix
-- ARGV     NOW, jid, offset, count
-- Returns  JSON: the state of the batch's own job; open; total, how many members it has got;
--          pending, how many of them it waits for; failed, an object with the groups of those whose
--          failure was told to it; jids, or left_out if it waits for too many to look at, which the
--          command relations has
-- Errors   Batch.status() when there is no such job, or it is not a batch
-- Cost     3 commands, 4 if the count is not 0
-- Repeat   safe
-- Needs    hmget scard sismember smembers time

local call = redis.call
local prefix = KEYS[1]
local function finite(text, default)
  local n = text and tonumber(text)
  if n and n - n == 0 then
    return n
  end
  return default
end

local function whole(area, name, text)
  local amount
  do
    local area, name, text = area, name, text
    local value
    do
      local area, name, text = area, name, text
      local n = tonumber(text)
      if not n or n - n ~= 0 then
        local words = {
          Failed = 'is not', Peek = 'missing or not', Pop = 'missing or not',
          Priority = 'missing or not', Stats = 'missing or not',
        }
        do
          local area, message = area, 'Arg "' .. name .. '" ' .. (words[area] or 'not') .. ' a number: ' .. tostring(text)
          error(area .. '(): ' .. message)
        end
      end
      value = n
    end
    if value % 1 ~= 0 or math.abs(value) > 2147483647 then
      do
        local area, message = area, 'Arg "' .. name .. '" is not a whole number: ' .. text
        error(area .. '(): ' .. message)
      end
    end
    amount = value
  end
  if amount < 0 then
    do
      local area, message = area, 'Arg "' .. name .. '" is negative: ' .. text
      error(area .. '(): ' .. message)
    end
  end
  return amount
end
local none = {}

local seldom1


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
end
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







local function array(list)
  if #list == 0 then
    return '[]'
  end
  return cjson.encode(list)
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
local offset = whole('Batch.status', 'offset', ARGV[3])
local count = whole('Batch.status', 'count', ARGV[4])
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
  local all = call('smembers', dependencies)
  if offset > 0 or count < pending then
    table.sort(all)
  end
  local found, seen = {}, 0
  for _, other in ipairs(all) do
    if other ~= 'x:open' then
      seen = seen + 1
      if seen > offset and #found < count then
        found[#found + 1] = other
      end
    end
  end
  return found
end
local too_many = count > 0 and pending > 4000
local _, values = seldom1('split_options', job[2])
local own = type(values.b) == 'table' and values.b or none
local failed = type(values.f) == 'table' and values.f.failed
return '{"state":' .. cjson.encode(job[1]) .. ',"open":' .. tostring(open) ..
  ',"total":' .. string.format('%.17g', (finite(own.n, 0))) .. ',"pending":' .. string.format('%.17g', pending) ..
  ',"failed":' .. (type(failed) == 'table' and cjson.encode(failed) or '{}') ..
  ',"jids":' .. array(count > 0 and not too_many and members() or none) ..
  (too_many and ',"left_out":true' or '') .. '}'

