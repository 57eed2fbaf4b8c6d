-- relations: some dependents or dependencies of a job, in no particular order.
--
-- Args     jid, 'dependents' or 'dependencies', cursor: 0 at first, then as returned
-- Returns  an array: the next cursor, 0 at the end, and an array of a few thousand jids. A jid may
--          be returned twice, and one added or removed meanwhile may be missing
-- Errors   Job(), Relations()
-- Cost     1 command
-- For      Go
-- Repeat   safe

-- The approximate number of jids that a call returns.
local SCANNED_AT_ONCE = 4000

local jid, which = required('Job', 'jid', ARGV[3]), ARGV[4]
if which ~= 'dependents' and which ~= 'dependencies' then
  reject('Relations', 'Unknown relation "' .. tostring(which) .. '"')
end
local cursor = required('Relations', 'cursor', ARGV[5])
if not string.find(cursor, '^%d+$') then
  reject('Relations', 'Arg "cursor" is no cursor: ' .. cursor)
end
return call('sscan', job_key(jid) .. '-' .. which, cursor, 'COUNT', SCANNED_AT_ONCE)
