-- failed: the sizes of failure groups, or the jobs of a group, latest failure first.
--
-- Args     [group [, start, limit]], or '', 0, 0, 'from', the cursor of the last call or ''
-- Returns  JSON {group: count}, or JSON {total, jobs} with jids;
--          from: JSON {cursor, groups}: about 500 groups, and the next cursor, empty at the end
-- Errors   Failed()
-- Cost     1 command and one a group
-- For      classic
-- Repeat   safe

local group = ARGV[3]
local start = integer('Failed', 'start', ARGV[4] or 0)
local limit = integer('Failed', 'limit', ARGV[5] or 25)

-- The JSON of the number of jobs in groups.
local function counts_of(groups)
  local counts = {}
  for i = 1, #groups do
    counts[i] = cjson.encode(groups[i]) .. ':' .. call('llen', prefix .. 'f:' .. groups[i])
  end
  return '{' .. table.concat(counts, ',') .. '}'
end

if ARGV[6] == 'from' then
  local cursor = scan_cursor('Failed', required('Failed', 'cursor', ARGV[7]))
  local found = call('sscan', prefix .. 'failures', cursor, 'COUNT', SCANNED)
  return '{"cursor":' .. cjson.encode(next_part(found)) ..
    ',"groups":' .. counts_of(found[2]) .. '}'
elseif group then
  local key = prefix .. 'f:' .. group
  local jids = call('lrange', key, start, start + limit - 1)
  return '{"total":' .. call('llen', key) .. ',"jobs":' .. array(jids) .. '}'
end
return counts_of(call('smembers', prefix .. 'failures'))
