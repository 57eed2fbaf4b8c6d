-- A job as clients read it.

-- @include "lib/base.lua"
-- @include "lib/json.lua"
-- @include "lib/events.lua"
-- @include "lib/history.lua"

-- The fields of a job, in this order:
-- 1 jid  2 klass  3 queue  4 priority  5 retries  6 remaining  7 data  8 tags  9 failure
-- 10 spawned_from_jid  11 time  12 history (old style)  13 state  14 worker  15 expires
-- The last three change when a job is popped: who pops it reads something else in their place.
local function read_fields(run, key, ...)
  return run('hmget', key, 'jid', 'klass', 'queue', 'priority', 'retries', 'remaining',
    'data', 'tags', 'failure', 'spawned_from_jid', 'time', 'history', ...)
end

local function read_job(run, jid)
  return read_fields(run, job_key(jid), 'state', 'worker', 'expires')
end

-- Both sets are empty for most jobs: one question finds that out.
local function relations_json(jid)
  local dependents = job_key(jid) .. '-dependents'
  local dependencies = job_key(jid) .. '-dependencies'
  if call('exists', dependents, dependencies) == 0 then
    return ',"dependents":[],"dependencies":[]'
  end
  return ',"dependents":' .. array(try('smembers', dependents)) ..
    ',"dependencies":' .. array(try('smembers', dependencies))
end

-- JSON of a job, with more fields at its end, if there are any. Tags and failure are stored as JSON.
local function job_json(job, tracked, more)
  local jid = job[1]
  adopt_history(jid, job[12])
  local text = cjson.encode({
    jid = jid,
    klass = job[2],
    state = job[13],
    queue = job[3],
    worker = job[14] or '',
    tracked = tracked,
    priority = finite(job[4], 0),
    expires = finite(job[15], 0),
    retries = finite(job[5], 0),
    remaining = math.floor(finite(job[6], 0)),
    data = job[7],
    spawned_from_jid = job[10],
  })
  return string.sub(text, 1, -2) ..
    ',"tags":' .. (job[8] and job[8] ~= '[]' and readable(job[8]) or '[]') ..
    ',"failure":' .. (job[9] and job[9] ~= '{}' and readable(job[9]) or '{}') ..
    ',"history":' .. history_json(jid) ..
    relations_json(jid) .. (more or '') .. '}'
end

-- The JSON of one job, or nil if there is none. With try, a key of another type counts as none.
local function find_job(run, jid)
  local job = read_job(run, jid)
  if job[1] then
    return job_json(job, is_tracked(jid))
  end
end

-- The JSON array of the jobs that exist.
local function find_jobs(jids, first)
  local found = {}
  for i = first, #jids do
    found[#found + 1] = find_job(try, jids[i])
  end
  return '[' .. table.concat(found, ',') .. ']'
end
