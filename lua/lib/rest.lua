-- Releasing the jobs that wait for a complete one: all at once for clients of other languages, some
-- hundreds in a call for Go. Of a job that has more, x:rest:<jid> has those that are still to be
-- released, and x:rest the job. Go is told, and sweeps until none are left. Should it end before that,
-- every later call that completes jobs releases some of them, and so does a worker that says that it
-- runs. To everybody else they are jobs that wait.

-- @include "lib/base.lua"
-- @include "lib/bulk.lua"
-- @include "lib/clock.lua"
-- @include "lib/deps.lua"

-- How many dependents a call of Go releases at most.
local RELEASED = 250

-- How many dependents this call may still release. Clients of other languages have all released at
-- once.
local releasable = math.huge

local function rest_key(jid)
  return prefix .. 'x:rest:' .. jid
end

-- Releases jobs that waited only for this one, of which dependents is the set of those that wait for
-- it. Jobs that can't be moved keep waiting.
local function release_some(jid, others, dependents) -- cold
  local stuck = {}
  for i = 1, #others do
    local other = others[i]
    local dependencies = job_key(other) .. '-dependencies'
    local ended = try('srem', dependencies, jid)
    if type(ended) == 'table' then
      stuck[#stuck + 1] = other
    elseif ended == 1 and call('scard', dependencies) == 0 and free(other, true) then
      call('sadd', dependencies, jid)
      stuck[#stuck + 1] = other
    end
  end
  each_slice(call, 'sadd', dependents, stuck)
end

-- Those of the jobs that do not wait for a job again, which was put once more.
local function of_this_life(others, dependents) -- cold
  if try('exists', dependents) == 0 then
    return others
  end
  local found = {}
  for i = 1, #others do
    if try('sismember', dependents, others[i]) == 0 then
      found[#found + 1] = others[i]
    end
  end
  return found
end

-- Releases some of the jobs that calls have left over. Returns how many, and whether there may be
-- more.
local function release_rest() -- cold
  local rest, released = prefix .. 'x:rest', 0
  releasable = math.min(releasable, RELEASED)
  while releasable > 0 do
    local jid = try('zrange', rest, 0, 0)[1]
    if not jid then
      break
    end
    local dependents = job_key(jid) .. '-dependents'
    local others = try('spop', rest_key(jid), releasable)
    releasable, released = releasable - #others, released + #others
    release_some(jid, of_this_life(others, dependents), dependents)
    if #others == 0 or try('exists', rest_key(jid)) == 0 then
      call('zrem', rest, jid)
    end
  end
  return released, releasable <= 0
end

-- Leaves the dependents of a complete job for later. Returns whether that was possible.
local function leave_rest(jid, dependents) -- cold
  local key = rest_key(jid)
  if try('exists', key) ~= 0 or try('zadd', prefix .. 'x:rest', stamp, jid) ~= 1 then
    return false
  elseif type(try('rename', dependents, key)) == 'table' and try('exists', key) ~= 1 then
    call('zrem', prefix .. 'x:rest', jid)
    return false
  end
  return true
end

-- Releases the jobs that waited only for this one, or leaves them all for release_rest if they are
-- more than the call may release.
local function release_dependents(jid) -- cold
  local dependents = job_key(jid) .. '-dependents'
  local count = try('scard', dependents)
  if count == 0 or type(count) == 'table' or count > releasable and leave_rest(jid, dependents) then
    return
  end
  local others = call('smembers', dependents)
  releasable = releasable - #others
  call('del', dependents)
  release_some(jid, others, dependents)
end
