-- failed: how many jobs failed by group, or the jobs of a group, newest failure first.
--
-- KEYS[1]  the namespace prefix
-- ARGV     NOW, [group [, start, limit]]
-- Returns  JSON {group: count}, or JSON {total, jobs} with jids
-- Errors   Failed()
-- Cost     1 command and one a group

-- @include "lib/base.lua"
-- @include "lib/check.lua"
-- @include "lib/json.lua"

local group = ARGV[2]
local start = whole('Failed', 'start', ARGV[3] or 0)
local limit = whole('Failed', 'limit', ARGV[4] or 25)

if group then
  local key = prefix .. 'f:' .. group
  local jids = {}
  if limit > 0 then
    jids = call('lrange', key, start, start + limit - 1)
  end
  return '{"total":' .. call('llen', key) .. ',"jobs":' .. array(jids) .. '}'
end
local counts = {}
for _, name in ipairs(call('smembers', prefix .. 'failures')) do
  counts[#counts + 1] = cjson.encode(name) .. ':' .. call('llen', prefix .. 'f:' .. name)
end
return '{' .. table.concat(counts, ',') .. '}'
