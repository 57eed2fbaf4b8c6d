-- Circles of dependencies: jobs that would wait for themselves, by way of others.

-- The number of dependencies that a call may still follow. A longer circle is not found.
local followable = 1000

-- The changes that the puts of a call make to dependencies: the jobs that will wait for a job, and
-- the jobs that a job will no longer wait for.
local function changes_of(items) -- cold
  local waiters, ended = {}, {}
  for _, item in ipairs(items) do
    for _, other in ipairs(item.others) do
      waiters[other] = waiters[other] or {}
      table.insert(waiters[other], item.jid)
    end
    local batch = item.given.batch
    if batch then
      waiters[item.jid] = waiters[item.jid] or {}
      table.insert(waiters[item.jid], batch)
    end
    ended[item.jid] = {}
    for _, other in ipairs(item.old and item.old.ended or none) do
      ended[item.jid][other] = true
    end
  end
  return {waiters = waiters, ended = ended}
end

-- The jobs that wait for a job, or for one that does, and the job itself, after these changes.
local function waiting_for(jid, changes) -- cold
  local list, found, at = {jid}, {[jid] = true}, 1
  local function add(some, but)
    for _, other in ipairs(some) do
      if not found[other] and not (but[other] and but[other][list[at]]) then
        list[#list + 1], found[other] = other, true
      end
    end
  end
  while list[at] and followable > 0 do
    local stored = try('srandmember', job_key(list[at]) .. '-dependents', followable)
    followable = followable - math.max(1, #stored)
    add(stored, changes.ended)
    add(changes.waiters[list[at]] or none, none)
    at = at + 1
  end
  return found
end

-- Whether a job that exists would wait for itself if it waited for others. Only calls from Go ask:
-- clients in other languages may close a circle.
local function closes_circle(jid, others, changes) -- cold
  if #others == 0 then
    return false
  end
  local found = waiting_for(jid, changes or {waiters = none, ended = none})
  for i = 1, #others do
    if found[others[i]] then
      return true
    end
  end
  return false
end

-- Fails if a job that is put again would wait for itself. A new one can't: nothing waits for it.
local function refuse_circles(area, items) -- cold
  local changes
  for _, item in ipairs(items) do
    if item.old and item.checked and #item.others > 0 then
      changes = changes or changes_of(items)
      if closes_circle(item.jid, item.others, changes) then
        reject(area, 'Job ' .. item.jid .. ' would wait for itself')
      end
    end
  end
end
