-- retry: requeues a worker's job and uses up one of its retries.
--
-- Args     jid, queue, worker [, delay [, group, message [, 'here', since [, data [, result]]]]]
--          here: only if the job runs in this queue, and, unless since is '', its run began then.
--          group and message may then be ''. Without here, the job moves to the queue
--          result: kept if the job fails because it has no retries left
-- Returns  the remaining retries; below 0 the job has failed, in the given group or in
--          failed-retries-<queue>
-- Errors   Retry() when the job is not this worker's, not running, or not here
-- Cost     7 commands; a failure notifies at most 200 jobs that wait for it
-- For      classic
-- Repeat   once
-- Hot

local item = {
  jid = required('Job', 'jid', ARGV[3]),
  queue = required('Retry', 'queue', ARGV[4]),
  delay = number('Retry', 'delay', ARGV[6] or 0),
  data = '', group = ARGV[7], message = ARGV[8],
}
if ARGV[9] == 'here' then
  item.here = true
  item.since, item.group = not_empty(ARGV[10]), not_empty(item.group)
  if ARGV[11] then
    item.data = ARGV[11]
    json('Retry', 'data', item.data)
  end
  if ARGV[12] then
    item.result = ARGV[12]
    json('Retry', 'result', item.result)
  end
end
must_publish()
raise_any('Retry', retry(required('Retry', 'worker', ARGV[5]), item))
return item.remaining
