-- list: a page of a list of jobs, with a summary of each. Changes nothing: due jobs are shown where
-- they are.
--
-- Args     list, name, offset, count (at most 500), shown
--          list, name  waiting, running, stalled, scheduled, depends or recurring, and a queue;
--                      failed and a group; tagged and a tag; complete or tracked, and nothing
--          shown       the bytes of each job's data to show; or 'jid', with a count of at most 5000
-- Returns  JSON {total, items}. An item has jid, klass, queue, state, priority, tags, retries,
--          remaining, worker, since, expires, due, fell_due, failure, parked_by, interval, size and
--          data; with 'jid', items are jids. A page with over 2 MiB of data to show has fewer items
--          than requested, but at least one
-- Errors   List(), Queue()
-- Cost     2 commands, 2 for each job; 2 more with data
-- For      Go
-- Repeat   safe

-- The maximum number of jids that a call returns.
local MAX_JIDS = 5000

local offset, count = whole('List', 'offset', ARGV[5]), whole('List', 'count', ARGV[6])
local most = ARGV[7] == 'jid' and MAX_JIDS or MAX_SHOWN
if count > most then
  reject('List', 'Arg "count" is more than ' .. most .. ': ' .. ARGV[6])
end
local list = open_list('List', ARGV[3], ARGV[4])
local head = '{"total":' .. list.total .. ',"items":'
if ARGV[7] == 'jid' then
  return head .. array(bare_list(list, offset, count)) .. '}'
end
local jids, scores = read_list(list, offset, count)
return head .. summaries(list, jids, scores, whole('List', 'shown', ARGV[7]), true) .. '}'
