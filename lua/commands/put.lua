-- put: creates a job in a queue, or moves an existing job with this jid there.
--
-- Args     worker, queue, jid, klass, data, delay, then pairs:
--          priority n, tags json, retries n, depends json
--          checked   1 from a caller that has checked that all JSON is JSON, and for whom a delay
--                    of 0 means none
--          new       1 in place of checked 1: the same, from a caller whose jid is a fresh random
--                    one. A job that is there comes from the same call, sent before, and is left as
--                    it is
--          backoff   from clients in PHP, {"initial_delay": seconds, "factor": n}: the wait of a
--                    job whose worker has lost its lock, before it is handed out again
--          o         LETTERS|JSON, options of the job's field x:o, as in lib/options.lua. An
--                    existing job keeps those of its own that neither o nor drop names. s and t are
--                    in seconds from now
--          drop      letters: options that an existing job loses
--          at        the time at which the job can be popped, in place of the delay
--          if        absent: a job that is there is left as it is; finished: unless it is complete
--                    or failed; idle: unless it is not running
--          strict    1: the jobs that it depends on must exist
--          batch     a jid: the job becomes a member of this batch, unless it is left as it is
--          replace   delay or due: if another job holds the unique key of the option u, the job
--                    takes its place, with a delay that begins again (delay), or due when it was
--                    (due); or it waits for that one if it is running. A job that has the jid of
--                    the put is left as it is
--          within    n, with replace delay: at most n seconds after the first put of the waiting
--                    job
-- Returns  the jid; an array of the jid and the state of the job that is there, when that is left
--          as it is because of the pair if, or of its unique key; an array of the jid of the job
--          that was replaced and "replaced"
-- Errors   Queue(), Put(); nothing is written then
-- Cost     a new job: 6 commands, 3 more for each tag or dependency, 2 with a lifetime
-- For      classic
-- Repeat   once, unless new
-- Waits    for replicas
-- Hot

local jid = put_one()
if jid then
  return jid
end
return put_from_arguments(3)
