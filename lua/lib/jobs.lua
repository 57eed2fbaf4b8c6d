-- A job as clients read it.

-- @include "lib/base.lua"
-- @include "lib/json.lua"
-- @include "lib/events.lua"
-- @include "lib/history.lua"

-- The fields of a job, in this order: what job_json reads, and what pop needs beside.
-- 1 jid  2 klass  3 state  4 queue  5 worker  6 priority  7 expires  8 retries  9 remaining
-- 10 data  11 tags  12 failure  13 spawned_from_jid  14 history (old style)  15 time
local function read_job(jid)
  return call('hmget', job_key(jid), 'jid', 'klass', 'state', 'queue', 'worker', 'priority',
    'expires', 'retries', 'remaining', 'data', 'tags', 'failure', 'spawned_from_jid', 'history', 'time')
end

-- Both sets are empty for most jobs: one question finds that out.
local function relations_json(jid)
  local dependents = job_key(jid) .. '-dependents'
  local dependencies = job_key(jid) .. '-dependencies'
  if call('exists', dependents, dependencies) == 0 then
    return ',"dependents":[],"dependencies":[]'
  end
  return ',"dependents":' .. array(call('smembers', dependents)) ..
    ',"dependencies":' .. array(call('smembers', dependencies))
end

-- JSON of a job. Tags and failure are stored as JSON.
local function job_json(job, tracked)
  local jid = job[1]
  adopt_history(jid, job[14])
  local text = cjson.encode({
    jid = jid,
    klass = job[2],
    state = job[3],
    queue = job[4],
    worker = job[5] or '',
    tracked = tracked,
    priority = finite(job[6], 0),
    expires = finite(job[7], 0),
    retries = finite(job[8], 0),
    remaining = math.floor(finite(job[9], 0)),
    data = job[10],
    spawned_from_jid = job[13],
  })
  return string.sub(text, 1, -2) ..
    ',"tags":' .. (job[11] and job[11] ~= '[]' and readable(job[11]) or '[]') ..
    ',"failure":' .. (job[12] and job[12] ~= '{}' and readable(job[12]) or '{}') ..
    ',"history":' .. history_json(jid) ..
    relations_json(jid) .. '}'
end

-- The JSON of one job, or nil when there is none.
local function find_job(jid)
  local job = read_job(jid)
  if job[1] then
    return job_json(job, is_tracked(jid))
  end
end

-- The JSON array of the jobs that exist.
local function find_jobs(jids, first)
  local found = {}
  for i = first, #jids do
    found[#found + 1] = find_job(jids[i])
  end
  return '[' .. table.concat(found, ',') .. ']'
end
