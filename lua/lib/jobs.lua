-- Jobs as clients read them.

-- The places of a job's fields, which are read together. Taking a job reads the fields up to
-- OPTIONS, and for a few jobs the next three.
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
local ATTEMPTS = 17

local function read_job(run, jid)
  return run('hmget', job_key(jid), 'klass', 'queue', 'priority', 'retries', 'remaining', 'data',
    'tags', 'time', 'x:o', 'failure', 'spawned_from_jid', 'history', 'jid', 'state', 'worker',
    'expires', 'x:attempts')
end

-- Deletes everything that belongs to a job with these tags.
local function delete_record(jid, tags)
  local key = job_key(jid)
  remove_tags(jid, names_of(tags), 1)
  call('del', key, key .. '-history', key .. '-dependencies')
end

-- The maximum number of related jids that a call returns to Go, which reads the rest by relations.
local MAX_RELATED = 4000

-- Returns the members of one of the sets, or if there is no room, none, with its name in left_out.
local function related(jid, name, left_out) -- cold
  local key, room = job_key(jid) .. '-' .. name, budget.relations
  if room then
    local count = try('scard', key)
    if count == 0 or type(count) == 'table' then
      return empty_list
    elseif count > room then
      left_out[#left_out + 1] = name
      return empty_list
    end
    budget.relations = room - count
  end
  return array(try('smembers', key))
end

local function sets_json(jid) -- cold
  local left_out = {}
  local text = ',"dependents":' .. related(jid, 'dependents', left_out) ..
    ',"dependencies":' .. related(jid, 'dependencies', left_out)
  return text .. (#left_out > 0 and ',"left_out":' .. array(left_out) or '')
end

-- Most jobs have neither set, which one command checks.
local function relations_json(jid)
  local dependents = job_key(jid) .. '-dependents'
  local dependencies = job_key(jid) .. '-dependencies'
  if call('exists', dependents, dependencies) > 0 then
    return sets_json(jid)
  end
  return ',"dependents":' .. empty_list .. ',"dependencies":' .. empty_list
end

-- Returns the extra members of the JSON of a job with options.
local function extra_members(jid, stored, state, time) -- cold
  return options_member(stored) .. progress_member(jid, stored) ..
    parked_member(jid, stored, state, time)
end

-- Returns the JSON of a job, with the text more at its end, and newest as for history_json. Tags
-- and failure are stored as JSON. The members are written one by one in cjson's order, because a
-- table would be expensive. Most numbers are the defaults, and need no parsing.
local function job_json(job, tracked, more, newest)
  local jid, tags, failure = job[JID], job[TAGS], job[FAILURE]
  adopt_history(jid, job[HISTORY])
  local retries, remaining, priority = job[RETRIES], job[REMAINING], job[PRIORITY]
  if retries ~= DEFAULT_RETRIES then
    retries = finite(retries, 0)
  end
  if remaining ~= DEFAULT_RETRIES then
    remaining = math.floor(finite(remaining, 0))
  end
  if priority ~= '0' then
    priority = exact(finite(priority, 0))
  end
  local encode = cjson.encode
  local history = history_json(jid, newest)
  local related_jobs = relations_json(jid)
  return '{"tracked":' .. (tracked and 'true' or 'false') ..
    ',"jid":' .. encode(jid) ..
    ',"retries":' .. retries ..
    ',"data":' .. encode(job[DATA]) ..
    ',"queue":' .. encode(job[QUEUE]) ..
    ',"state":' .. encode(job[STATE]) ..
    ',"remaining":' .. remaining ..
    ',"spawned_from_jid":' .. encode(job[SPAWNED_FROM_JID]) ..
    ',"klass":' .. encode(job[KLASS]) ..
    ',"expires":' .. finite(job[EXPIRES], 0) ..
    ',"worker":' .. encode(job[WORKER] or '') ..
    ',"priority":' .. priority ..
    ',"tags":' .. (tags and #tags > 2 and readable(tags) or empty_list) ..
    ',"failure":' .. (failure and failure ~= '{}' and readable(failure) or '{}') ..
    ',"history":' .. history .. related_jobs ..
    (job[OPTIONS] and extra_members(jid, job[OPTIONS], job[STATE], job[TIME]) or '') ..
    (more or '') .. '}'
end
