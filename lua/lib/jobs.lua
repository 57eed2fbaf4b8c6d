-- A job as clients read it.

-- @include "lib/base.lua"
-- @include "lib/events.lua"
-- @include "lib/history.lua"
-- @include "lib/json.lua"
-- @include "lib/surface.lua"

-- The fields of a job that are read together, and the index of each in the result. Taking a job
-- overwrites those from state on, so they are not read then. Add a new field before history.
local JOB_FIELDS = {
  'jid', 'klass', 'queue', 'priority', 'retries', 'remaining', 'data', 'tags', 'failure',
  'spawned_from_jid', 'time', 'history', 'state', 'worker', 'expires',
}
local JID = 1
local KLASS = 2
local QUEUE = 3
local PRIORITY = 4
local RETRIES = 5
local REMAINING = 6
local DATA = 7
local TAGS = 8
local FAILURE = 9
local SPAWNED_FROM_JID = 10
local TIME = 11
local HISTORY = 12
local STATE = 13
local WORKER = 14
local EXPIRES = 15

local function read_job(run, jid)
  return run('hmget', job_key(jid), unpack(JOB_FIELDS))
end

-- Reads the fields of a job that is about to be taken.
local function read_untaken(run, key)
  return run('hmget', key, unpack(JOB_FIELDS, 1, STATE - 1))
end

-- Most jobs have neither set: one command finds that out.
local function relations_json(jid)
  local dependents = job_key(jid) .. '-dependents'
  local dependencies = job_key(jid) .. '-dependencies'
  if call('exists', dependents, dependencies) == 0 then
    return ',"dependents":' .. EMPTY_LIST .. ',"dependencies":' .. EMPTY_LIST
  end
  return ',"dependents":' .. array(try('smembers', dependents)) ..
    ',"dependencies":' .. array(try('smembers', dependencies))
end

-- The JSON of a job, with the text more at its end. Tags and failure are stored as JSON.
local function job_json(job, tracked, more)
  local jid, tags, failure = job[JID], job[TAGS], job[FAILURE]
  adopt_history(jid, job[HISTORY])
  local text = cjson.encode({
    jid = jid,
    klass = job[KLASS],
    state = job[STATE],
    queue = job[QUEUE],
    worker = job[WORKER] or '',
    tracked = tracked,
    expires = finite(job[EXPIRES], 0),
    retries = finite(job[RETRIES], 0),
    remaining = math.floor(finite(job[REMAINING], 0)),
    data = job[DATA],
    spawned_from_jid = job[SPAWNED_FROM_JID],
  })
  return string.sub(text, 1, -2) ..
    ',"priority":' .. number_json(finite(job[PRIORITY], 0)) ..
    ',"tags":' .. (tags and #tags > 2 and readable(tags) or EMPTY_LIST) ..
    ',"failure":' .. (failure and failure ~= '{}' and readable(failure) or '{}') ..
    ',"history":' .. history_json(jid) ..
    relations_json(jid) .. (more or '') .. '}'
end

-- The JSON of one job, or nil. With try, a key of another type counts as no job.
local function find_job(run, jid)
  local job = read_job(run, jid)
  if job[JID] then
    return job_json(job, is_tracked(jid))
  end
end

-- The JSON array of the jobs that exist.
local function find_jobs(jids, first)
  local found = {}
  for i = first, #jids do
    found[#found + 1] = find_job(try, jids[i])
  end
  return joined(found)
end
