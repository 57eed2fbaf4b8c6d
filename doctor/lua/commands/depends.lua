-- depends: both jobs of a dependency record it. A job waits only for jobs that can still complete,
-- and is notified when one of them fails.
--
-- Items  j:<jid>-dependencies jid, j:<jid>-dependents jid

local function dependencies_key(jid)
  return job_key(jid) .. '-dependencies'
end

local function dependents_key(jid)
  return job_key(jid) .. '-dependents'
end

-- Removes a dependency, and releases the job if no other is left.
local function let_go(jid, other)
  undepend(jid, other)
  local job = fields_of(jid)
  if job and job.state == 'depends' and job.queue and not is_there(dependencies_key(jid)) then
    go_on(job)
  end
end

-- Whether a job acts on the failure of a parent.
local function acts_on_failure(jid)
  local values = split_options(try('hget', job_key(jid), 'x:o') or '')
  local policy = type(values[POLICY]) == 'table' and values[POLICY]['do']
  return policy == 'run' or policy == 'fail'
end

-- Checks that a job waits for another one, as a member of a key claims.
local function check(key, member, jid, other)
  local state, theirs = state_of(jid), other == OPEN and 'open' or state_of(other)
  local waits, known = is_in(dependencies_key(jid), other), is_in(dependents_key(other), jid)
  local function undo()
    let_go(jid, other)
  end
  local queue = try('hget', job_key(jid), 'queue')
  local work = queue_key(type(queue) == 'string' and queue or '', 'work')
  if not waits and not known or state == 'unknown' then
    return
  elseif state ~= 'depends' then
    diagnose('dependency_left', key, member, state or 'gone', undo,
      dependencies_key(jid), 'set', dependents_key(other), 'set')
  elseif theirs ~= 'open' and is_in(rest_key(other), jid) then
    return -- about to be released
  elseif not theirs or theirs == 'complete' then
    diagnose('dependency_over', key, member, theirs or 'gone', undo,
      dependencies_key(jid), 'set', dependents_key(other), 'set', work, 'zset')
  elseif not waits then
    diagnose('dependency_one_sided', key, member, dependencies_key(jid), function()
      call('sadd', dependencies_key(jid), other)
    end, dependencies_key(jid), 'set')
  elseif not known then
    diagnose('dependency_one_sided', key, member, dependents_key(other), function()
      call('sadd', dependents_key(other), jid)
    end, dependents_key(other), 'set')
  elseif theirs == 'failed' and member == other and not is_there(rest_key(other))
    and acts_on_failure(jid) then
    diagnose('not_notified', job_key(jid), '', other, false)
  end
end

return each(function(name, member, key)
  local waiting = between(name, 'j:', '-dependencies')
  if waiting then
    check(key, member, waiting, member)
  else
    check(key, member, member, between(name, 'j:', '-dependents'))
  end
end)
