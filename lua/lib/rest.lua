-- Deferred dependents: too many to release or notify in one call. The dependents of a complete job
-- are released: all at once for classic clients, a few hundred per call for Go. The dependents of a
-- failed job are notified of the failure, a few hundred per call.
--
-- x:rest holds the jobs with remaining dependents. x:rest:<jid> is the set of jobs to release, or
-- the cursor at which notifying continues. Usually the reply notifies Go, which then sweeps until
-- nothing remains. If Go stops earlier, every later call that completes a job, and every
-- registration of a worker, continues. To all other scripts, the dependents are still waiting.

-- The maximum number of dependents that a call from Go releases.
local RELEASED = 250

-- Releases dependents that waited only for this job; dependents is the key of their set. Jobs that
-- can't be moved keep waiting.
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

-- Returns the jobs that do not wait again for a job put once more.
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

-- Releases more dependents of a complete job. Returns the number released.
local function release_more(jid) -- cold
  local dependents = job_key(jid) .. '-dependents'
  local others = try('spop', rest_key(jid), budget.releases)
  budget.releases = budget.releases - #others
  release_some(jid, of_this_life(others, dependents), dependents)
  if #others == 0 or try('exists', rest_key(jid)) == 0 then
    call('zrem', prefix .. 'x:rest', jid)
  end
  return #others
end

-- Removes the note of dependents still to notify of this job's failure.
local function forget_untold(jid) -- cold
  call('del', rest_key(jid))
  call('zrem', prefix .. 'x:rest', jid)
end

-- Notifies more dependents of a job that is still failed. Returns the number notified.
local function tell_more(jid, cursor) -- cold
  local before = budget.tells
  forget_untold(jid)
  if try('hget', job_key(jid), 'state') == 'failed' then
    tell_all({jid}, cursor, job_ended)
  end
  return before - budget.tells
end

-- Continues the work of earlier calls. Returns the number of jobs handled, and whether any remain.
local function settle_rest() -- cold
  local rest, settled = prefix .. 'x:rest', 0
  budget.releases = math.min(budget.releases, RELEASED)
  while budget.releases > 0 and budget.tells > 0 do
    local jid = try('zrange', rest, 0, 0)[1]
    if not jid then
      return settled, false
    end
    local cursor = try('get', rest_key(jid))
    local fails = type(cursor) == 'string'
    settled = settled + (fails and tell_more(jid, cursor) or release_more(jid))
  end
  return settled, try('exists', rest) == 1
end

-- Defers the dependents of a complete job. Reports whether this was possible.
local function leave_rest(jid, dependents) -- cold
  local key = rest_key(jid)
  if type(try('get', key)) == 'string' then -- the job had failed before
    forget_untold(jid)
  end
  if try('exists', key) ~= 0 or try('zadd', prefix .. 'x:rest', stamp, jid) ~= 1 then
    return false
  elseif type(try('rename', dependents, key)) == 'table' and try('exists', key) ~= 1 then
    call('zrem', prefix .. 'x:rest', jid)
    return false
  end
  return true
end

-- Releases the dependents that waited only for this job, or leaves all to settle_rest if there are
-- more than the call may release.
local function release_dependents(jid) -- cold
  local dependents = job_key(jid) .. '-dependents'
  local count = try('scard', dependents)
  if count == 0 or type(count) == 'table'
    or count > budget.releases and leave_rest(jid, dependents) then
    return
  end
  local others = call('smembers', dependents)
  budget.releases = budget.releases - #others
  call('del', dependents)
  release_some(jid, others, dependents)
end
