-- put: creates a job in a queue, or moves the one that has this jid there.
--
-- KEYS[1]  the namespace prefix
-- ARGV     NOW, worker, queue, jid, klass, data, delay, then pairs: priority n, tags json,
--          retries n, depends json, checked 1 from a caller that has checked that all JSON is
--          JSON, and for whom a delay of 0 means none; backoff json from clients in PHP:
--          {"initial_delay": seconds, "factor": n}, which says how long a job whose worker has
--          lost its lock waits before it is handed out again;
--          o LETTERS|JSON: options of the job's field x:o, as lib/options.lua says. An existing job
--          keeps those of its own that neither o nor drop names. s and t are in seconds from now;
--          drop letters: options that an existing job loses;
--          at time: when the job can be popped, in place of the delay;
--          if absent, finished or idle: a job that is there is left as it is, unless it is complete
--          or failed (finished), or unless it is not running (idle);
--          new 1 in place of checked 1: the same, from a caller whose jid is a fresh random one. A
--          job that is there comes from the same call, sent before, and is left as it is
-- Returns  the jid; an array of the jid and the state of the job that is there, when that is left
--          as it is because of the pair if
-- Errors   Queue(), Put(); nothing is written then
-- Cost     a new job: 6 commands, 3 more for each tag or dependency; 2 more with a lifetime, and those
--          of cancel for up to two jobs whose lives have ended
-- Repeat   once, unless new
-- Waits    for replicas
-- Needs    del exists expire get hdel hexists hget hincrby hmget hset lindex llen lpush lrange lrem
--          ltrim publish rpush sadd scard set smembers srem time zadd zcard zincrby zmscore zpopmax
--          zpopmin zrangebyscore zrem zscore

-- @include "lib/put.lua"

return put_from_arguments(2)
