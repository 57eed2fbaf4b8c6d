-- worker.register: registers a running worker with its description, which the worker must renew
-- within 150 seconds. Releases some dependents of complete jobs that had too many for one call.
-- Makes one worker examine the failed jobs every 5 minutes.
--
-- Args     worker, age, json
--          age   the seconds since the worker's start
--          json  an object, the worker's description, for workers with 'registered'
-- Returns  nil, or a sum: 1 if sweep must still release such jobs; 2 if this worker should call
--          sweep for failed jobs; 4 if it should call queues.record
-- Errors   Worker.register()
-- Cost     7 commands, 1 more when jobs have failed; it releases at most 250 jobs
-- For      Go
-- Repeat   safe

-- The seconds for which no other worker examines the failed jobs.
local SWEPT = 300

-- The longest time in seconds that a registration is kept: 30 days.
local MOST_KEPT = 2592000

local worker = named('Worker.register', 'worker', ARGV[3])
local started = now - number('Worker.register', 'age', ARGV[4])
json('Worker.register', 'json', ARGV[5])
local age = finite(try('hget', prefix .. 'config', 'max-worker-age'), DEFAULT_MAX_WORKER_AGE)
local kept = math.min(math.max(age, REGISTERED), MOST_KEPT)
call('set', registry_key(worker), stamp .. '|' .. exact(started) .. '|' .. ARGV[5],
  'EX', string.format('%d', kept))
try('zadd', prefix .. 'workers', stamp, worker)
local todo = 0
if try('exists', prefix .. 'x:rest') == 1 then
  local _, more = settle_rest()
  todo = more and 1 or 0
end
if todo == 0 and try('exists', prefix .. 'failures') == 1 then
  local leased = try('set', prefix .. 'x:swept', stamp, 'NX', 'EX', SWEPT)
  todo = leased and not leased.err and 2 or 0
end
if is_record_due() then
  todo = todo + 4
end
return todo > 0 and todo or nil
