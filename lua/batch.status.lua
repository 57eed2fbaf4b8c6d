-- batch.status: how far a batch is, and some of the members that it waits for, in no particular
-- order.
--
-- KEYS[1]  the namespace prefix
-- ARGV     NOW, jid, offset, count
-- Returns  JSON: the state of the batch's own job; open; total, how many members it has got;
--          pending, how many of them it waits for; failed, an object with the groups of those whose
--          failure was told to it; jids, or left_out if it waits for too many to look at, which the
--          command relations has
-- Errors   Batch.status() when there is no such job, or it is not a batch
-- Cost     3 commands, 4 if the count is not 0
-- Repeat   safe
-- Needs    hmget scard sismember smembers time

-- @include "lib/base.lua"
-- @include "lib/batch.lua"
-- @include "lib/check.lua"
-- @include "lib/deps.lua"
-- @include "lib/json.lua"
-- @include "lib/options.lua"

local jid = required('Job', 'jid', ARGV[2])
local offset = whole('Batch.status', 'offset', ARGV[3])
local count = whole('Batch.status', 'count', ARGV[4])
local job = call('hmget', job_key(jid), 'state', 'x:o')
if not job[1] then
  reject('Batch.status', 'Job ' .. jid .. ' does not exist')
elseif not is_batch(job[2]) then
  reject('Batch.status', 'Job ' .. jid .. ' is not a batch')
end

local dependencies = job_key(jid) .. '-dependencies'
local open = call('sismember', dependencies, OPEN) == 1
local pending = call('scard', dependencies) - (open and 1 or 0)

-- How many pending members a call lists at most.
local MAX_LISTED = 4000

-- The members that it waits for, in the range. Redis may change their order between two calls, so that
-- pages need another.
local function members()
  local all = call('smembers', dependencies)
  if offset > 0 or count < pending then
    table.sort(all)
  end
  local found, seen = {}, 0
  for _, other in ipairs(all) do
    if other ~= OPEN then
      seen = seen + 1
      if seen > offset and #found < count then
        found[#found + 1] = other
      end
    end
  end
  return found
end

local too_many = count > 0 and pending > MAX_LISTED
local _, values = split_options(job[2])
local own = type(values.b) == 'table' and values.b or none
local failed = type(values.f) == 'table' and values.f.failed
return '{"state":' .. cjson.encode(job[1]) .. ',"open":' .. tostring(open) ..
  ',"total":' .. number_json(finite(own.n, 0)) .. ',"pending":' .. number_json(pending) ..
  ',"failed":' .. (type(failed) == 'table' and cjson.encode(failed) or '{}') ..
  ',"jids":' .. array(count > 0 and not too_many and members() or none) ..
  (too_many and ',"left_out":true' or '') .. '}'
