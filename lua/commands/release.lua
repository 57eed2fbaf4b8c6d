-- release: requeues a worker's job without using up a retry.
--
-- Args     jid, queue, worker, delay, data [, since]
--          since: only if this run began at this time, unless ''
-- Returns  the jid
-- Errors   Release() when the job is not this worker's, not running, or runs in another queue
-- Cost     7 commands
-- For      Go
-- Repeat   once

local jid = required('Job', 'jid', ARGV[3])
local queue = required('Release', 'queue', ARGV[4])
local worker = required('Release', 'worker', ARGV[5])
local item = {
  jid = jid, queue = queue, here = true, delay = number('Release', 'delay', ARGV[6]),
  data = ARGV[7], since = not_empty(ARGV[8]),
}
json('Release', 'data', item.data)
must_publish()
raise_any('Release', release(worker, item))
return jid
