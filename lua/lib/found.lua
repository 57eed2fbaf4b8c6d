-- Reading a job by its jid.

-- Returns the member of a job's JSON with its due time, or ''.
local function due_member(jid, queue, state) -- cold
  local scheduled, undelayed = unpack(
    state == 'depends' and try('hmget', job_key(jid), 'scheduled', 'x:undelayed') or none)
  local due = finite(due_elsewhere(jid, queue, state, scheduled, undelayed), 0)
  return due > 0 and ',"due":' .. exact(due) or ''
end

-- Returns the JSON of one job, or nil. With try, a key of another type counts as no job. With
-- asks_due, unset for classic clients, adds the due time, and sets large data beside the JSON.
local function find_job(run, jid, asks_due)
  local job = read_job(run, jid)
  if not job[JID] then
    return
  elseif not asks_due then
    return job_json(job, is_tracked(jid))
  end
  local state, more = job[STATE], set_beside(job)
  if job[ATTEMPTS] then
    more = more .. attempts_member(job[ATTEMPTS])
  end
  if state == 'scheduled' or state == 'depends' then
    more = more .. due_member(jid, job[QUEUE], state)
  end
  return job_json(job, is_tracked(jid), more)
end
