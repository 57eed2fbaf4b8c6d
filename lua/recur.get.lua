-- recur.get: one recurring job.
--
-- KEYS[1]  the namespace prefix
-- ARGV     NOW, jid
-- Returns  its JSON, or nil
-- Errors   Recurring()
-- Cost     1 command

-- @include "lib/base.lua"
-- @include "lib/check.lua"
-- @include "lib/json.lua"

local jid = required('Recurring', 'jid', ARGV[2])
local job = call('hmget', recur_key(jid), 'jid', 'klass', 'state', 'queue', 'priority', 'interval',
  'retries', 'count', 'data', 'tags', 'backlog')
if not job[1] then
  return nil
end
local text = cjson.encode({
  jid = job[1],
  klass = job[2],
  state = job[3],
  queue = job[4],
  priority = tonumber(job[5]) or 0,
  interval = tonumber(job[6]) or 0,
  retries = tonumber(job[7]) or 0,
  count = tonumber(job[8]) or 0,
  data = job[9],
  backlog = tonumber(job[11]) or 0,
})
return string.sub(text, 1, -2) .. ',"tags":' .. array(list_of(job[10])) .. '}'
