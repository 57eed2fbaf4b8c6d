-- depends: a job that waits for another one is known there, and the other way round; jobs wait only
-- for jobs that can still complete, and hear of those that fail.
--
-- Items  j:<jid>-dependencies jid, j:<jid>-dependents jid

local function set_of(jid, what)
  return 'j:' .. jid .. '-' .. what
end

-- Removes a dependency, and lets the job go on that has no other.
local function release(jid, other)
  call('srem', prefix .. set_of(jid, 'dependencies'), other)
  call('srem', prefix .. set_of(other, 'dependents'), jid)
  local job = read_job(jid)
  if job and job.state == 'depends' and job.queue and not exists(set_of(jid, 'dependencies')) then
    free(job)
  end
end

-- Whether a job acts on the failure of one that it waits for.
local function has_policy(jid)
  local _, values = options_of(try('hget', prefix .. 'j:' .. jid, 'x:o') or '')
  local policy = type(values.f) == 'table' and values.f['do']
  return policy == 'run' or policy == 'fail'
end

-- Checks that a job waits for another one, of which a member of a key tells.
local function check(key, member, jid, other)
  local state, theirs = state_of(jid), other == OPEN and 'open' or state_of(other)
  local waits, known = is_in(set_of(jid, 'dependencies'), other), is_in(set_of(other, 'dependents'), jid)
  local function undo()
    release(jid, other)
  end
  if not waits and not known or state == 'unknown' then
    return
  elseif state ~= 'depends' then
    problem('dependency_left', key, member, state or 'gone', undo)
  elseif theirs ~= 'open' and is_in('x:rest:' .. other, jid) then
    return -- it is going to be released
  elseif not theirs or theirs == 'complete' then
    problem('dependency_over', key, member, theirs or 'gone', undo)
  elseif not waits then
    problem('dependency_one_sided', key, member, prefix .. set_of(jid, 'dependencies'), function()
      call('sadd', prefix .. set_of(jid, 'dependencies'), other)
    end)
  elseif not known then
    problem('dependency_one_sided', key, member, prefix .. set_of(other, 'dependents'), function()
      call('sadd', prefix .. set_of(other, 'dependents'), jid)
    end)
  elseif theirs == 'failed' and member == other and not exists('x:rest:' .. other)
    and has_policy(jid) then
    problem('untold', 'j:' .. jid, '', other, false)
  end
end

return each(function(key, member)
  local waiting = between(key, 'j:', '-dependencies')
  if waiting then
    check(key, member, waiting, member)
  else
    check(key, member, member, between(key, 'j:', '-dependents'))
  end
end)
