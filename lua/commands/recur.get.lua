-- recur.get: one recurring job.
--
-- Args     jid
-- Returns  its JSON, or nil
-- Errors   Recurring()
-- Cost     1 command
-- For      classic
-- Repeat   safe

local jid = required('Recurring', 'jid', ARGV[3])
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
  interval = finite(job[6], 0),
  retries = finite(job[7], 0),
  count = finite(job[8], 0),
  data = job[9],
  backlog = finite(job[11], 0),
})
return string.sub(text, 1, -2) ..
  ',"priority":' .. exact(finite(job[5], 0)) ..
  ',"tags":' .. array(names_of(job[10])) .. '}'
