-- list: a page of a list of jobs, with what people want to know of each. Changes nothing: jobs that
-- have fallen due are shown where they are.
--
-- KEYS[1]  the namespace prefix
-- ARGV     COMMAND, NOW, list, name, offset, count (at most 500), bytes
--          list, and what is named: waiting, running, stalled, scheduled, depends, recurring, a queue;
--          failed, a group; tagged, a tag; complete, tracked, nothing
--          bytes: how much to show of the data of each, or 0
-- Returns  JSON {total, items}, with fewer items than wanted if they have more than 2 MiB of data to
--          show, but one if there is any: jid, klass, queue, state, priority, tags, retries,
--          remaining, worker, since, expires, due, fell_due, failure, parked_by, interval, size, data
-- Errors   List(), Queue()
-- Cost     2 commands, 2 for each job; 2 more with data, 1 more for each that is scheduled, in a list
--          of other jobs
-- For      Go
-- Repeat   safe
-- Needs    hget hmget hstrlen llen lrange time zcard zcount zrange zrevrange zscore

local offset = whole('List', 'offset', ARGV[5])
local count, bytes = whole('List', 'count', ARGV[6]), whole('List', 'bytes', ARGV[7])
if count > MAX_SHOWN then
  reject('List', 'Arg "count" is more than ' .. MAX_SHOWN .. ': ' .. ARGV[6])
end
local list = open_list('List', ARGV[3], ARGV[4])
local jids, scores = read_list(list, offset, count)
return '{"total":' .. list.total .. ',"items":' .. summaries(list, jids, scores, bytes, true) .. '}'
