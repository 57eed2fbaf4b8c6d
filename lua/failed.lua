-- failed: how many jobs failed by group, or the jobs of a group, newest failure first.
--
-- KEYS[1]  the namespace prefix
-- ARGV     NOW, [group [, start, limit]]
-- Returns  JSON {group: count}, or JSON {total, jobs} with jids
-- Errors   Failed()
-- Cost     1 command and one a group
-- Repeat   safe
-- Needs    llen lrange smembers

-- @include "lib/base.lua"
-- @include "lib/check.lua"
-- @include "lib/json.lua"

local group = ARGV[2]
local start = integer('Failed', 'start', ARGV[3] or 0)
local limit = integer('Failed', 'limit', ARGV[4] or 25)

if group then
  local key = prefix .. 'f:' .. group
  local jids = call('lrange', key, start, start + limit - 1)
  return '{"total":' .. call('llen', key) .. ',"jobs":' .. array(jids) .. '}'
end
local counts = {}
for _, name in ipairs(call('smembers', prefix .. 'failures')) do
  counts[#counts + 1] = cjson.encode(name) .. ':' .. call('llen', prefix .. 'f:' .. name)
end
return '{' .. table.concat(counts, ',') .. '}'
