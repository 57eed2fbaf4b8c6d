-- queue.settings: the settings of a queue, as they apply to its jobs.
--
-- Args     queue
-- Returns  an array of texts: how long a lock lasts; how many jobs may run, 0 or less for any
--          number; how many may be started in which time, each 0 if there is no max-rate; and when
--          the next one may be started, or 0 if that is now
-- Errors   Queue()
-- Cost     2 commands
-- For      Go
-- Repeat   safe

local queue = required('Queue', 'queue', ARGV[3])
local settings = read_settings(queue)
local limit = read_max_rate(queue, settings.max_rate, 1) or {rate = 0, per = 0}
return {
  exact(settings.heartbeat), exact(settings.max_concurrency), exact(limit.rate), exact(limit.per),
  exact(limit.rate > 0 and rate_opens(limit) or 0),
}
