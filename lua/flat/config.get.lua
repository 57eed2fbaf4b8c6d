-- config.get: one setting, or all of them.
--
-- KEYS[1]  the namespace prefix
-- ARGV     NOW, [key], or '', 'from', the cursor of the last call or ''
-- Returns  the value, an integer when it is a default, nil when it has none; or JSON of all,
--          with the defaults of those that are not set, but for those of backoff;
--          from: JSON {cursor, settings} of about 500 that are set, and a cursor, which is empty at
--          the end
-- Errors   Config.get()
-- Cost     1 command
-- Repeat   safe
-- Needs    hget hgetall hscan

local call = redis.call
local prefix = KEYS[1]

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



local unlisted = {
  ['backoff-initial-delay'] = 0,
  ['backoff-factor'] = 3,
}
local defaults = {
  ['application'] = 'qless',
  ['heartbeat'] = 60,
  ['grace-period'] = 10,
  ['stats-history'] = 30,
  ['histogram-history'] = 7,
  ['jobs-history-count'] = 50000,
  ['jobs-history'] = 604800,
}
local function settings_from(cursor)
local function reject(area, message)
  error(area .. '(): ' .. message)
end
local function scan_cursor(area, cursor)
  if cursor == '' then
    return '0'
  elseif not string.find(cursor, '^%d+$') or tonumber(cursor) >= 2 ^ 64 then
    reject(area, 'Arg "cursor" is no cursor: ' .. string.sub(cursor, 1, 200))
  end
  return cursor
end
local function next_part(reply)
  return reply[1] == '0' and '' or reply[1]
end
  local found = call('hscan', prefix .. 'config', scan_cursor('Config.get', cursor), 'COUNT', 500)
  local set, some = {}, found[2]
  for i = 1, #some, 2 do
    set[(i + 1) / 2] = cjson.encode(some[i]) .. ':' .. cjson.encode(some[i + 1])
  end
  return '{"cursor":' .. cjson.encode(next_part(found)) .. ',"settings":{' ..
    table.concat(set, ',') .. '}}'
end
local key = ARGV[2]
if ARGV[3] == 'from' then
  return settings_from(required('Config.get', 'cursor', ARGV[4]))
elseif key then
  return call('hget', prefix .. 'config', key) or defaults[key] or unlisted[key]
end
local set = call('hgetall', prefix .. 'config')
for i = 1, #set, 2 do
  defaults[set[i]] = set[i + 1]
end
return cjson.encode(defaults)

