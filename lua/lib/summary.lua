-- Summaries of jobs, each short enough for a line in a list.

-- The maximum number of bytes to show of a failure's message.
local SHOWN_MESSAGE = 256

-- Returns the due time of a job outside a list of scheduled jobs, or nil.
local function due_elsewhere(jid, queue, state, scheduled, undelayed) -- cold
  if state == 'scheduled' and queue then
    local due = try('zscore', queue_key(queue, 'scheduled'), jid)
    return type(due) == 'string' and due or nil
  end
  return state == 'depends' and not undelayed and scheduled or nil
end

local function failure_summary(text) -- cold
  local failure = list_of(text)
  if type(failure.group) ~= 'string' then
    return nil
  end
  local message = type(failure.message) == 'string' and failure.message or ''
  return {
    group = failure.group, message = string.sub(message, 1, SHOWN_MESSAGE),
    when = finite(failure.when, 0),
    worker = type(failure.worker) == 'string' and failure.worker or nil,
  }
end

local function recurring_summary(jid, score) -- cold
  local klass, queue, priority, tags, retries, interval = unpack(try('hmget', recur_key(jid),
    'klass', 'queue', 'priority', 'tags', 'retries', 'interval'))
  return {
    jid = jid, klass = klass, queue = queue, priority = priority, tags = names_of(tags),
    retries = retries, interval = interval, due = score, fell_due = finite(score, math.huge) <= now,
  }
end

local function job_summary(list, jid, score)
  local klass, queue, state, priority, tags, retries, remaining, worker, expires, time, failure,
    parked, scheduled, undelayed = unpack(try('hmget', job_key(jid), 'klass', 'queue', 'state',
    'priority', 'tags', 'retries', 'remaining', 'worker', 'expires', 'time', 'failure', 'x:parked',
    'scheduled', 'x:undelayed'))
  local is_locked = list.kind == 'running' or list.kind == 'stalled'
  local shown = {
    jid = jid, klass = klass, queue = queue, state = state, priority = priority,
    tags = tags and #tags > 2 and names_of(tags) or nil, retries = retries, remaining = remaining,
    worker = worker, since = time,
    parked_by = parked and parked_by(state, time, parked) or nil,
    failure = failure and failure ~= '{}' and failure_summary(failure) or nil,
    expires = is_locked and score or state == 'running' and expires or nil,
  }
  if list.kind == 'scheduled' then
    shown.due = score
  elseif state == 'scheduled' or state == 'depends' then
    shown.due = due_elsewhere(jid, queue, state, scheduled, undelayed)
  end
  shown.fell_due = state == 'scheduled' and finite(shown.due, math.huge) <= now or nil
  return shown
end

-- Returns at most bytes of a job's data, or all data of a codec, for the caller to decode.
local function shown_data(key, bytes) -- cold
  local data = data_of(key)
  if type(data) ~= 'string' or string.find(data, '^%s*{.*"x:codec"') then
    return data
  end
  return string.sub(data, 1, bytes)
end

-- The lists that show a job's score: the due time, or the lock expiry.
local SHOWS_SCORE = {running = true, stalled = true, scheduled = true, recurring = true}

-- Returns the JSON of jobs in a list, with known scores if given, and at most bytes of their data.
-- With may_stop, stops when enough data was read.
local function summaries(list, jids, scores, bytes, may_stop)
  local shown = {}
  for i = 1, #jids do
    if may_stop and searched >= MAX_SEARCHED then
      break
    end
    local jid, recurs = jids[i], list.kind == 'recurring'
    local key = recurs and recur_key(jid) or job_key(jid)
    local score = scores[i] or SHOWS_SCORE[list.kind] and score_in(list, jid)
    local job = recurs and recurring_summary(jid, score) or job_summary(list, jid, score)
    local size = try('hstrlen', key, 'data')
    job.size = type(size) == 'number' and size or 0
    job.data = bytes > 0 and shown_data(key, bytes) or nil
    shown[i] = cjson.encode(job)
  end
  return joined(shown)
end
