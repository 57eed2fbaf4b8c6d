-- put: creates a job in a queue, or moves an existing job with this jid there.
--
-- Args     worker, queue, jid, klass, data, delay, then pairs:
--          priority n, tags json, retries n, depends json
--          checked   1: the caller has validated all JSON, and a delay of 0 means none
--          new       1, in place of checked: the same, and the jid is fresh and random. An existing
--                    job stems from an earlier attempt of this call, and is left alone
--          backoff   from clients in PHP, {"initial_delay": seconds, "factor": n}: the delay of a
--                    job after a lost lock
--          o         LETTERS|JSON, the options of lib/options.lua, stored in the job's field x:o.
--                    An existing job keeps its other options, unless drop names them. s and t are
--                    in seconds from now
--          drop      letters: options that an existing job loses
--          at        when the job is due, in place of the delay
--          if        leaves an existing job alone: absent, always; finished, unless it is complete
--                    or failed; idle, if it is running
--          strict    1: its dependencies must exist
--          batch     a jid: the job becomes a member of this batch, unless it is left alone
--          replace   delay or due: the job replaces another holder of its unique key (option u).
--                    Its delay begins again (delay), or its due time is the former holder's (due).
--                    It waits for a running holder. A holder with the same jid is left alone
--          within    n, with replace delay: the job is due at most n seconds after the waiting job
--                    was first put
-- Returns  the jid; or an array of the jid and the state of an existing job that is left alone
--          because of if or its unique key; or an array of the jid of a replaced job and "replaced"
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
