-- find: searches a list for jobs by klass, tag, or text in the jid or data, or for the callbacks of
-- batches. Changes nothing.
--
-- Args     list, name, cursor, count, limit, shown, then filters: klass, tag, text in the jid, text
--          in the data, batch, large
--          list, name, shown  as in list; also worker, a worker; jids, a JSON array
--          cursor   the cursor of the last reply, or ''
--          count    the number of jobs to examine, at most 1000. A call examines fewer if they have
--                   more than 2 MiB of data, where data with escapes counts ten times
--          limit    the number of jobs to find, or 0 for any
--          filters  a job must match all of them; an empty filter matches all jobs; batch is '' or
--                   1; large is '', or 1 to search data over 256 KiB, too
-- Returns  JSON {looked, large, cursor, items}: the number of jobs examined, how many of them had
--          data too large to search, the next cursor, empty at the end, and the jobs found, as in
--          list
-- Errors   Find(), Queue()
-- Cost     3 commands, 1 for each job that it looks at, and 3 for each that it finds
-- For      Go
-- Repeat   safe

local MAX_LOOKED = 1000

local cursor = required('Find', 'cursor', ARGV[5])
local count, limit = whole('Find', 'count', ARGV[6]), whole('Find', 'limit', ARGV[7])
if count < 1 or count > MAX_LOOKED then
  reject('Find', 'Arg "count" is not from 1 to ' .. MAX_LOOKED .. ': ' .. ARGV[6])
end
local list = open_list('Find', ARGV[3], ARGV[4])
local filters = read_filters('Find', 9, #ARGV)
local jids, looked, next_cursor = search('Find', list, cursor, count, limit, filters)
local passed_over = too_large
local items = ARGV[8] == 'jid' and array(jids) or
  summaries(list, jids, none, whole('Find', 'shown', ARGV[8]))
return '{"looked":' .. looked .. ',"large":' .. passed_over .. ',"cursor":' ..
  cjson.encode(next_cursor) .. ',"items":' .. items .. '}'
