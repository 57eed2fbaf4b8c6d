-- workers: the workers seen recently, with the number of jobs of each, or the jobs of one.
--
-- Args     [worker], or '', first, last [, 'registered', the cursor of the last call or '']: a
--          range of the list, where negative numbers count from the end, '' for all
-- Returns  JSON of all, last seen first: {name, jobs, stalled} as counts;
--          registered: JSON {cursor, workers}: at most 500 workers, last seen last, each registered
--          one with the text SEEN|STARTED|JSON, as registered or as gone, and the next cursor,
--          empty at the end. A worker is gone 150 seconds after its registration; if it is not
--          subscribed, when its locks have expired or it was not seen for 70 seconds;
--          of one: {jobs, stalled} as jids. A timed-out job is listed even if another worker has it
-- Errors   Workers()
-- Cost     2 commands, 2 for each worker, 3 if registered, 4 if it may have died
-- For      classic
-- Repeat   safe

-- The number of workers that a call reads from a cursor on.
local MAX_WORKERS = 500

-- The number of seconds within which a worker registers again, with time to spare.
local REGISTERS = 70

-- Later than any lock ends: 100 days from now.
local far = exact(now + 8640000)

local function forget_old()
  local key = prefix .. 'workers'
  local age = finite(call('hget', prefix .. 'config', 'max-worker-age'), DEFAULT_MAX_WORKER_AGE)
  local old = call('zrangebyscore', key, 0, exact(now - age), 'LIMIT', 0, 1000)
  if old[1] and may_write(key) then
    for _, worker in ipairs(old) do
      call('del', worker_key(worker))
    end
    each_slice(call, 'zrem', key, old)
  end
end

-- The counts of a worker.
local function counts(name)
  local key = worker_key(name)
  return {
    name = name, jobs = call('zcount', key, stamp, far), stalled = call('zcount', key, 0, stamp),
  }
end

-- Whether a registered worker has died: it is not subscribed, and long unseen or its locks expired.
local function has_died(worker, seen)
  if finite(seen, 0) > now - REGISTERS and (worker.jobs > 0 or worker.stalled == 0) then
    return false
  end
  return try('pubsub', 'numsub', prefix .. 'x:wake:' .. worker.name)[2] == 0
end

-- Some of the workers from a cursor on, the longest unseen first: one seen meanwhile comes again.
local function counts_from(cursor)
  local key = prefix .. 'workers'
  local list = {kind = 'workers', key = key, from = 0, total = call('zcard', key)}
  local offset, next_cursor = after_cursor('Workers', list, cursor), ''
  local some, scores = read_list(list, offset, MAX_WORKERS)
  if #some == MAX_WORKERS then
    next_cursor = cursor_at(list, offset + MAX_WORKERS - 1, some[MAX_WORKERS], scores[MAX_WORKERS])
  end
  for i = 1, #some do
    local worker = counts(some[i])
    local text, has_gone = registration(some[i])
    has_gone = has_gone or text and has_died(worker, scores[i])
    worker[has_gone and 'gone' or 'registered'] = text
    some[i] = cjson.encode(worker)
  end
  return '{"cursor":' .. cjson.encode(next_cursor) .. ',"workers":' .. joined(some) .. '}'
end

-- Clients in PHP send empty arguments in place of omitted ones.
local worker, first, last = not_empty(ARGV[3]), not_empty(ARGV[4]), not_empty(ARGV[5])
if not worker then
  first, last = integer('Workers', 'first', first or 0), integer('Workers', 'last', last or -1)
end
forget_old()
if worker then
  local key = worker_key(worker)
  return '{"jobs":' .. array(call('zrevrangebyscore', key, far, stamp)) ..
    ',"stalled":' .. array(call('zrevrangebyscore', key, stamp, 0)) .. '}'
elseif ARGV[6] == 'registered' then
  return counts_from(required('Workers', 'cursor', ARGV[7]))
end
local all = call('zrevrange', prefix .. 'workers', first, last)
for i = 1, #all do
  all[i] = cjson.encode(counts(all[i]))
end
return joined(all)
