-- batch.status: the progress of a batch, and some of its pending members, in no particular order.
--
-- Args     jid [, the cursor of the last call or '' [, 'stuck']]
-- Returns  JSON {state, open, total, pending, failed}: the state of the batch's own job, whether it
--          takes new members, its members so far, how many are pending, and an object with the
--          groups of reported failures. With a cursor also cursor and jids: about 500 pending
--          members, and the next cursor, empty at the end. With stuck also stuck: how many of
--          these members have failed
-- Errors   Batch.status() when there is no such job, or it is not a batch
-- Cost     3 commands, 4 with a cursor, and with stuck one a member
-- For      Go
-- Repeat   safe

local jid = required('Job', 'jid', ARGV[3])
local cursor = ARGV[4] and scan_cursor('Batch.status', ARGV[4])
local stored, state = read_batch('Batch.status', jid)

local dependencies = job_key(jid) .. '-dependencies'
local open = call('sismember', dependencies, OPEN) == 1
local pending = call('scard', dependencies) - (open and 1 or 0)

-- Some of the members that it waits for, from the cursor on, as a part of the JSON.
local function members()
  local found, jids = call('sscan', dependencies, cursor, 'COUNT', SCANNED), {}
  local stuck = ARGV[5] == 'stuck' and 0
  for _, other in ipairs(found[2]) do
    if other ~= OPEN then
      jids[#jids + 1] = other
      if stuck and call('hget', job_key(other), 'state') == 'failed' then
        stuck = stuck + 1
      end
    end
  end
  return ',"cursor":' .. cjson.encode(next_part(found)) .. ',"jids":' .. array(jids) ..
    (stuck and ',"stuck":' .. exact(stuck) or '')
end

local values = split_options(stored)
local own = type(values[BATCH]) == 'table' and values[BATCH] or none
local failed = type(values[POLICY]) == 'table' and values[POLICY].failed
return '{"state":' .. cjson.encode(state) .. ',"open":' .. tostring(open) ..
  ',"total":' .. exact(finite(own.n, 0)) .. ',"pending":' .. exact(pending) ..
  ',"failed":' .. (type(failed) == 'table' and cjson.encode(failed) or '{}') ..
  (cursor and members() or '') .. '}'
