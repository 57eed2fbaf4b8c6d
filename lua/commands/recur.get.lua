-- recur.get: one recurring job.
--
-- Args     jid
-- Returns  its JSON, or nil
-- Errors   Recurring()
-- Cost     1 command
-- For      classic
-- Repeat   safe

local jid = required('Recurring', 'jid', ARGV[3])
local job = named_fields(call, recur_key(jid), {'jid', 'klass', 'state', 'queue', 'priority',
  'interval', 'retries', 'count', 'data', 'tags', 'backlog'})
if not job.jid then
  return nil
end
local text = cjson.encode({
  jid = job.jid, klass = job.klass, state = job.state, queue = job.queue,
  interval = finite(job.interval, 0), retries = finite(job.retries, 0),
  count = finite(job.count, 0), data = job.data, backlog = finite(job.backlog, 0),
})
return string.sub(text, 1, -2) ..
  ',"priority":' .. exact(finite(job.priority, 0)) ..
  ',"tags":' .. array(names_of(job.tags)) .. '}'
