-- pop: locks the next jobs of a queue for a worker: lost ones first, then by priority.
--
-- KEYS[1]  the namespace prefix
-- ARGV     NOW, queue, worker, count [, 'timed']
-- Returns  a JSON array of at most count jobs, fewer when the queue has fewer,
--          none when it is paused or its running jobs have reached <queue>-max-concurrency.
--          timed: each also has put_at, when it was put, or popped before if it was given back, and
--          popped_at, since when it is this worker's; both as text
-- Errors   Queue(), Pop()
-- Cost     7 commands when the queue is empty, 17 for one job, 5 for each one more;
--          reading a long history is what makes a job dear

-- @include "lib/check.lua"
-- @include "lib/take.lua"

local queue = required('Queue', 'queue', ARGV[2])
local worker = required('Pop', 'worker', ARGV[3])
local count = whole('Pop', 'count', ARGV[4])
local timed = ARGV[5] == 'timed'

must_publish()
local settings = read_settings(queue)
if call('sismember', prefix .. 'paused_queues', queue) == 1 then
  return '[]'
end

-- A job as it is now that it is popped.
local function popped_json(job, tracked, its_worker, expires)
  local times
  if timed then
    times = ',"put_at":' .. cjson.encode(job[11] or '') .. ',"popped_at":"' .. stamp .. '"'
  end
  job[12], job[13], job[14], job[15] = false, 'running', its_worker, expires
  return job_json(job, tracked, times)
end

local out = {}
count = allowed(queue, settings.max_concurrency, count)
if count > 0 then
  local expired = open_queue(queue, settings, count)
  lock(queue, expired, worker, settings, popped_json, out)
  while #out < count do
    local jids = take_work(call, queue, count - #out)
    if #jids == 0 then
      break
    end
    lock(queue, jids, worker, settings, popped_json, out)
  end
end
write_first('zadd', prefix .. 'workers', stamp, worker)
return '[' .. table.concat(out, ',') .. ']'
