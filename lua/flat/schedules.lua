-- schedules: the schedules that are registered, by id.
--
-- KEYS[1]  the namespace prefix
-- ARGV     NOW, then an id, or the offset and the limit of a list
-- Returns  JSON {now, total, items}, with fewer items than wanted if they have many followers, but
--          one if there is any, where an item is {id, due, followers, fields}: when it was last
--          due, the hash of its followers as a list, and its spec, on_missed, queue, klass, digest,
--          since, seen, last, jid, missed and, of a single one, only, data and pairs
-- Errors   Schedules()
-- Cost     2 commands, 3 for each
-- Repeat   safe
-- Needs    hget hgetall hmget time zcard zrange zscore

local call = redis.call
local prefix = KEYS[1]
local try = redis.pcall

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
  return amount + 0
end
local none = {}

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



local function joined(texts)
  if #texts == 0 then
    return '[]'
  elseif #texts == 1 then
    return '[' .. texts[1] .. ']'
  elseif #texts == 2 then
    return '[' .. texts[1] .. ',' .. texts[2] .. ']'
  end
  return '[' .. table.concat(texts, ',') .. ']'
end



local FIELDS = {
  'spec', 'on_missed', 'queue', 'klass', 'digest', 'since', 'seen', 'last', 'jid', 'missed',
}
local shown = 0
local function item(id, fields)
  local read = try('hmget', prefix .. 'x:schedule:' .. id, unpack(fields))
  local followers = try('hgetall', prefix .. 'x:follow:' .. id)
  local due = try('hget', prefix .. 'x:schedules', id)
  shown = shown + #followers / 2
  return cjson.encode({
    id = id,
    due = type(due) == 'string' and due,
    followers = followers.err and none or followers,
    fields = read.err and none or read,
  })
end
local ids, total = {}, 0
if ARGV[3] then
  local offset = whole('Schedules', 'offset', ARGV[2])
  local limit = whole('Schedules', 'limit', ARGV[3])
  total = call('zcard', prefix .. 'x:schedule-ids')
  ids = limit > 0 and call('zrange', prefix .. 'x:schedule-ids', offset, offset + limit - 1) or ids
elseif call('zscore', prefix .. 'x:schedule-ids', required('Schedules', 'id', ARGV[2])) then
  ids, total = {ARGV[2]}, 1
  for _, field in ipairs({'only', 'data', 'pairs'}) do
    FIELDS[#FIELDS + 1] = field
  end
end
local items = {}
for i = 1, #ids do
  if shown >= 1000 then
    break
  end
  items[i] = item(ids[i], FIELDS)
end
return '{"now":' .. stamp .. ',"total":' .. total .. ',"items":' .. joined(items) .. '}'

