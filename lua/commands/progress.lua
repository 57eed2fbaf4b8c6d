-- progress: records the progress of a worker's jobs, and publishes it to their waiters.
--
-- Args     worker, then for each job: jid, since, done, total, note
--          since  only if this run began at this time, unless ''
--          total  0 if unknown
-- Returns  an array with a text for each job: empty, or '!' and the problem, in the format of
--          text_of
-- Errors   Progress(); nothing is written then
-- Cost     2 commands a job, 3 if it has waiters
-- For      Go
-- Repeat   safe

local worker = required('Progress', 'worker', ARGV[3])
if (#ARGV - 3) % 5 ~= 0 then
  reject('Progress', 'Each job needs 5 args')
end

-- Records the progress of one job. Returns the problem, or nil.
local function set(item)
  local key = job_key(item.jid)
  local job = try('hmget', key, 'worker', 'state', 'time', 'retries', 'remaining', 'x:o')
  local problem = job.err and job or not_owned('Progress', item.jid, job, worker, item.since)
  if problem then
    return problem
  end
  local retries, remaining, stored = unpack(job, 4)
  local attempt = math.max(0, finite(retries, 0) - math.max(0, finite(remaining, 0))) + 1
  local text = exact(item.done) .. '|' .. exact(item.total) .. '|' .. exact(attempt) .. '|' ..
    exact(now) .. '|' .. item.note
  stored = stored or ''
  if has_option(stored, HAS_PROGRESS) then
    call('hset', key, 'x:progress', text)
  else
    call('hset', key, 'x:progress', text, 'x:o', with_letter(stored, HAS_PROGRESS))
  end
  if has_option(stored, AWAITED) then
    publish('x:progress:' .. item.jid, progress_json(text))
  end
end

local items = {}
for i = 4, #ARGV, 5 do
  items[#items + 1] = {
    jid = named('Progress', 'jid', ARGV[i]),
    since = not_empty(ARGV[i + 1]), note = ARGV[i + 4],
    done = not_negative('Progress', 'done', ARGV[i + 2]),
    total = not_negative('Progress', 'total', ARGV[i + 3]),
  }
end
must_publish()
local outcomes = {}
for i = 1, #items do
  local problem = set(items[i])
  outcomes[i] = problem and '!' .. text_of(problem) or ''
end
return outcomes
