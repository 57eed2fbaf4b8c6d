-- Circular dependencies: jobs that would wait for themselves, through other jobs.

-- The number of dependencies that a call may still follow. Longer circles go undetected.
local followable = 1000

-- Returns the changes to dependencies by the puts of a call: for each parent and child, by jid,
-- whether the child will wait.
local function changes_of(items) -- cold
  local changes = {}
  local function note(jid, other, waits)
    changes[other] = changes[other] or {}
    changes[other][jid] = waits
  end
  for _, item in ipairs(items) do
    for _, other in ipairs(item.old and item.old.ended or none) do
      note(item.jid, other, false)
    end
    for _, other in ipairs(item.others) do
      note(item.jid, other, true)
    end
    if item.given.batch then
      note(item.given.batch, item.jid, true)
    end
  end
  return changes
end

-- Returns the direct and indirect dependents of a job after these changes, and the job itself.
local function waiting_for(jid, changes) -- cold
  local list, seen, at = {jid}, {[jid] = true}, 1
  while list[at] and followable > 0 do
    local stored = try('srandmember', job_key(list[at]) .. '-dependents', followable)
    local waiting = set_of(stored, 1)
    for other, waits in pairs(changes[list[at]] or none) do
      waiting[other] = waits
    end
    for other, waits in pairs(waiting) do
      if waits and not seen[other] then
        list[#list + 1], seen[other] = other, true
      end
    end
    followable, at = followable - math.max(1, #stored), at + 1
  end
  return seen
end

-- Returns the problem if an existing job would wait for itself by waiting for others, or nil. Only
-- calls from Go check this: classic clients may close a circle.
local function circle_of(jid, others, changes) -- cold
  local seen = others[1] and waiting_for(jid, changes or none)
  for i = 1, #others do
    if seen[others[i]] then
      return new_problem('invalid', jid, 'would wait for itself')
    end
  end
end

-- Fails if a job that is put again would wait for itself. A new job has no dependents, so it can't.
local function refuse_circles(items) -- cold
  local changes
  for _, item in ipairs(items) do
    if item.old and item.checked and item.others[1] then
      changes = changes or changes_of(items)
      raise_any('Put', circle_of(item.jid, item.others, changes))
    end
  end
end
