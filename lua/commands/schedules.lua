-- schedules: the registered schedules, by id.
--
-- Args     an id, or the offset and the limit of a list
-- Returns  JSON {now, total, items}. An item is {id, due, followers, fields}: when the schedule was
--          last due, the hash of its followers as a list, and its spec, on_missed, queue, klass,
--          digest, since, seen, last, jid and missed; for one id also only, data and pairs. With
--          many followers there are fewer items than requested, but at least one
-- Errors   Schedules()
-- Cost     2 commands, 3 for each
-- For      Go
-- Repeat   safe

local FIELDS = {
  'spec', 'on_missed', 'queue', 'klass', 'digest', 'since', 'seen', 'last', 'jid', 'missed',
}

-- The maximum number of followers that a list shows, and the number that it has shown.
local MAX_FOLLOWERS = 1000
local shown = 0

local function item(id, fields)
  local read = try('hmget', schedule_key(id), unpack(fields))
  local followers = try('hgetall', follow_key(id))
  local due = try('hget', prefix .. 'x:schedules', id)
  shown = shown + #followers / 2
  return cjson.encode({
    id = id, due = type(due) == 'string' and due,
    followers = followers.err and none or followers, fields = read.err and none or read,
  })
end

local ids, total = {}, 0
if ARGV[4] then
  local offset = whole('Schedules', 'offset', ARGV[3])
  local limit = whole('Schedules', 'limit', ARGV[4])
  total = call('zcard', prefix .. 'x:schedule-ids')
  ids = limit > 0 and call('zrange', prefix .. 'x:schedule-ids', offset, offset + limit - 1) or ids
elseif call('zscore', prefix .. 'x:schedule-ids', required('Schedules', 'id', ARGV[3])) then
  ids, total = {ARGV[3]}, 1
  union(FIELDS, {'only', 'data', 'pairs'}, 1)
end
local items = {}
for i = 1, #ids do
  if shown >= MAX_FOLLOWERS then
    break
  end
  items[i] = item(ids[i], FIELDS)
end
return '{"now":' .. stamp .. ',"total":' .. total .. ',"items":' .. joined(items) .. '}'
