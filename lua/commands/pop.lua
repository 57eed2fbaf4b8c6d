-- pop: locks the next jobs of a queue for a worker: lost jobs first, then by priority.
--
-- Args     queue, worker, count [, 'timed']
-- Returns  a JSON array of at most count jobs; none if the queue is paused or its running jobs have
--          reached <queue>-max-concurrency. At most 1000 expired jobs are dropped; then the queue
--          may have more jobs. timed: each job also has, as text, put_at (when it was put, or last
--          popped if it was released) and popped_at (when this run began). With large data, an
--          array: the JSON, where beside names a job's data; 'more' if the queue may have more
--          jobs, because of their size or after 60 expired ones, or ''; and the data. Thousands of
--          dependents are named in left_out instead. timed with count 1: if neither job nor queue
--          has anything special, an array of the job's fields and values, as in reserve, and its
--          history
-- Errors   Queue(), Pop()
-- Cost     5 commands when the queue is empty, 15 for one job, 5 for each one more
-- For      classic
-- Repeat   once
-- Hot
-- Library  admit_alike note_all_started settle_limits

local queue = required('Queue', 'queue', ARGV[3])
local worker = required('Pop', 'worker', ARGV[4])
local count = whole('Pop', 'count', ARGV[5])
local timed = ARGV[6] == 'timed'
if timed and count == 1 then
  local reply = pop_one(queue, worker)
  if reply then
    return reply
  end
end

must_publish()
local settings = read_settings(queue)
if timed then
  budget.relations = MAX_RELATED
end
-- One command checks for keys that many namespaces and queues lack.
settings.tracked = call('exists', prefix .. 'paused_queues', prefix .. 'tracked',
  queue_key(queue, 'recur'), queue_key(queue, 'scheduled')) > 0
if settings.tracked and call('sismember', prefix .. 'paused_queues', queue) == 1 then
  return empty_list
end

-- The number of jobs taken before the length of their JSON is checked: histories may be long.
local AT_ONCE = 50

local out, show, at_once, is_left = {}, popped_json, count, false
if timed then
  -- Like popped_json, with the times at which the job was put and popped.
  local function timed_json(jid, job, tracked, its_worker, expires)
    local data = job[DATA]
    local beside = data and #data >= LARGE_DATA and set_beside(job) or ''
    local text = popped_json(jid, job, tracked, its_worker, expires, beside ..
      ',"put_at":' .. cjson.encode(job[TIME] or '') .. ',"popped_at":"' .. stamp .. '"')
    budget.text = budget.text - #text
    return text
  end
  show, at_once, budget.bytes, budget.drops = timed_json, AT_ONCE, MAX_LARGE, DROPPED
end
count = allowed(queue, settings, count)
if count > 0 then
  settings.most, settings.worker = count, worker
  local jids = open_queue(queue, settings, math.min(count, at_once)) -- lost jobs
  is_left = settings.left or jids ~= none and at_once < count
  while jids do
    lock(settings, jids, show, out)
    local more = math.min(count - #out, at_once)
    if is_left and out[1] or budget.drops <= 0 or settings.stopped or budget.text <= 0 then
      is_left = true
      break
    elseif more <= 0 then
      break
    end
    settings.run = call
    jids = best_of_work(call, queue, more)
    if #jids == 0 and not (settings.places and bring_more(queue, settings, more)) then
      break
    end
  end
end
if met_limits then
  settle_limits()
elseif #out == 0 and settings.tracked then
  local coming = try('zrange', queue_key(queue, 'scheduled'), 0, 0)
  if coming[1] then
    try_parked(coming[1], queue)
  end
end
add_first(prefix .. 'workers', stamp, worker)
if timed and (large or is_left) then
  return with_large(joined(out), is_left and (out[1] or budget.drops <= 0) and 'more' or '')
end
return joined(out)
