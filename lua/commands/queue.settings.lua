-- queue.settings: the settings that apply to the jobs of a queue.
--
-- Args     queue
-- Returns  an array of texts: the lock time; the maximum of running jobs, 0 or less for none; the
--          max-rate as a number of jobs and a period, both 0 if there is none; and when the next
--          job may start, or 0 for now
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
