-- A job as clients read it.

-- @include "lib/base.lua"
-- @include "lib/events.lua"
-- @include "lib/history.lua"
-- @include "lib/json.lua"
-- @include "lib/options.lua"
-- @include "lib/surface.lua"

-- The places of the fields of a job that are read together. Taking a job reads those up to OPTIONS,
-- and the next three of the few jobs that have them.
local KLASS = 1
local QUEUE = 2
local PRIORITY = 3
local RETRIES = 4
local REMAINING = 5
local DATA = 6
local TAGS = 7
local TIME = 8
local OPTIONS = 9
local FAILURE = 10
local SPAWNED_FROM_JID = 11
local HISTORY = 12
local JID = 13
local STATE = 14
local WORKER = 15
local EXPIRES = 16

local function read_job(run, jid)
  return run('hmget', job_key(jid), 'klass', 'queue', 'priority', 'retries', 'remaining', 'data',
    'tags', 'time', 'x:o', 'failure', 'spawned_from_jid', 'history', 'jid', 'state', 'worker',
    'expires')
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
    relations_json(jid) .. (job[OPTIONS] and options_member(job[OPTIONS]) or '') ..
    (more or '') .. '}'
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
