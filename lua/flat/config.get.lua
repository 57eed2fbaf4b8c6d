-- config.get: one setting, or all of them.
--
-- KEYS[1]  the namespace prefix
-- ARGV     NOW, [key]
-- Returns  the value, an integer when it is a default, nil when it has none; or JSON of all,
--          with the defaults of those that are not set, but for those of backoff
-- Errors   none
-- Cost     1 command
-- Repeat   safe
-- Needs    hget hgetall

local call = redis.call
local prefix = KEYS[1]


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
local key = ARGV[2]
if key then
  return call('hget', prefix .. 'config', key) or defaults[key] or unlisted[key]
end
local set = call('hgetall', prefix .. 'config')
for i = 1, #set, 2 do
  defaults[set[i]] = set[i + 1]
end
return cjson.encode(defaults)

