-- Policies: the effect of a failed dependency on a job. A policy is the option f, {"do": what,
-- "of": [jid, ...], "failed": {jid: group}}. With run, the job stops waiting for the dependency;
-- with fail, it fails too; with wait, as without the option, it keeps waiting. of lists the
-- dependencies of the put, and failed the failed ones.
--
-- The letter d of a job, without a value, means a child with this option waits for it.

-- Returns the key for dependents left to notify or release: see lib/rest.lua.
local function rest_key(jid) -- cold
  return prefix .. 'x:rest:' .. jid
end

-- Reports whether the options of a call have a policy, which must be valid.
local function read_policy(area, text) -- cold
  if not text or not has_option(text, POLICY) then
    return false
  end
  local policy = split_options(text)[POLICY]
  policy = type(policy) == 'table' and policy['do']
  if policy ~= 'wait' and policy ~= 'run' and policy ~= 'fail' then
    reject(area, 'Arg "o" has no policy: ' .. string.sub(text, 1, 200))
  end
  return true
end

-- Fails a job without its worker's report, and calls ended, like job_ended, with its options. The
-- caller has added the job to its failure group.
local function fail_unasked(jid, queue, group, message, stored, ended) -- cold
  local key = job_key(jid)
  leave_queue(queue, jid)
  if has_option(stored, FAIR) then
    leave_turns(queue, try('hget', key, 'priority'))
  end
  for _, other in ipairs(try('smembers', key .. '-dependencies')) do
    undepend(jid, other)
  end
  local cap, keep = read_failing()
  mark_exhausted(jid, queue, group, failure_json(group, message, math.floor(now), ''), cap)
  publish('log', cjson.encode({
    jid = jid, event = 'failed', worker = '', group = group, message = message,
  }))
  ended(jid, stored, 'failed')
  if keep then
    file_failure(jid, group, keep, stored)
  end
end

-- Ends a job's wait for a failed dependency, if the job can continue. Reports whether it could.
local function let_run(jid, other) -- cold
  local dependencies = job_key(jid) .. '-dependencies'
  if type(try('srem', dependencies, other)) == 'table' then
    return false
  elseif call('scard', dependencies) == 0 and free(jid, true) then
    call('sadd', dependencies, other)
    return false
  end
  try('srem', job_key(other) .. '-dependents', jid)
  return true
end

-- Notifies a job of the failure of its dependency other. Reports whether the job is affected, and
-- returns its options if it failed as a result. ended is as above.
local function tell(jid, other, group, ended) -- cold
  local key = job_key(jid)
  local state, queue, stored, history = unpack(
    try('hmget', key, 'state', 'queue', 'x:o', 'history'))
  local values, letters = split_options(stored)
  local policy = values[POLICY]
  if state ~= 'depends' or not queue or type(policy) ~= 'table'
    or policy['do'] ~= 'run' and policy['do'] ~= 'fail' then
    return false
  end
  local runs = policy['do'] == 'run'
  if runs and not let_run(jid, other) or not runs and add_failure(jid, 'failed-dependency') then
    return false
  end
  policy.failed = type(policy.failed) == 'table' and policy.failed or {}
  policy.failed[other] = group
  call('hset', key, 'x:o', join_options(letters, values))
  adopt_history(jid, history)
  record(key, entry(now, '"dependency-failed"', cjson.encode({jid = other, group = group})))
  if runs then
    return true
  end
  local message = 'It depends on ' .. other .. ', which has failed in ' .. group
  local alone = string.gsub(stored, '^(%a*)d', '%1', 1) -- its dependents are notified later
  fail_unasked(jid, queue, 'failed-dependency', message, alone, ended)
  return true, stored
end

-- Notifies jobs of the failure of their dependency other. Adds jobs to failed if they fail too and
-- have children with a policy. ended is as above. Returns the number of affected jobs.
local function tell_each(jids, other, failed, ended) -- cold
  local group, minded = list_of(try('hget', job_key(other), 'failure')).group, 0
  group = type(group) == 'string' and group or ''
  for i = 1, #jids do
    local minds, stored = tell(jids[i], other, group, ended)
    minded = minded + (minds and 1 or 0)
    failed[#failed + 1] = stored and has_option(stored, WATCHED) and jids[i] or nil
  end
  budget.tells = budget.tells - #jids
  return minded
end

-- Leaves a failed job's dependents, from a cursor on, to later calls.
local function leave_untold(jid, cursor) -- cold
  local reply = try('set', rest_key(jid), cursor, 'NX')
  if reply and not reply.err then
    try('zadd', prefix .. 'x:rest', stamp, jid)
  end
end

-- Returns about as many dependents from a cursor on as this call may notify, and the next cursor.
local function dependents_from(jid, cursor) -- cold
  local key = job_key(jid) .. '-dependents'
  local all = cursor == '0' and try('srandmember', key, budget.tells + 1)
  if all and #all <= budget.tells then
    return all, '0'
  end
  local page = try('sscan', key, cursor, 'COUNT', budget.tells)
  return page[2] or none, page[1] or '0'
end

-- Notifies the dependents of failed jobs, and then the dependents of jobs that fail in turn. The
-- first failed job continues at a cursor. A job is notified of a failure only once. Dependents
-- beyond this call's budget are left to later calls, but a repeated tour, with again set, leaves
-- some only if a job was affected. Returns the number of affected jobs.
local function tell_all(failed, cursor, ended, again) -- cold
  local at, minded = 1, 0
  while failed[at] do
    local jid = failed[at]
    repeat
      if budget.tells <= 0 then
        if minded > 0 or not again then
          leave_untold(jid, cursor)
        end
        break
      end
      local dependents
      dependents, cursor = dependents_from(jid, cursor)
      minded = minded + tell_each(dependents, jid, failed, ended)
    until cursor == '0'
    at, cursor = at + 1, '0'
  end
  return minded
end

-- Watches all or some dependencies of a job whose policy was just written; ended is as above.
local function watch(jid, ended, some) -- cold
  local failed = {}
  for _, other in ipairs(some or try('smembers', job_key(jid) .. '-dependencies')) do
    local key = job_key(other)
    local state, stored = unpack(try('hmget', key, 'state', 'x:o'))
    if state and not (stored and has_option(stored, WATCHED)) then
      stored = stored and string.find(stored, '^%a+|{') and stored or '|{}'
      call('hset', key, 'x:o', WATCHED .. stored)
    end
    if state == 'failed' then
      failed[#failed + 1] = other
    end
  end
  local more = {}
  for _, other in ipairs(failed) do
    tell_each({jid}, other, more, ended)
  end
  tell_all(more, '0', ended)
end
