-- notes: keys that refer to jobs are still right, and no work is left to a sweep.
--
-- Items  j:<jid>-history, r:<jid>, f:<group>, q:<queue>-<part>, failures group, x:unique:<key>,
--        x:until jid, x:rest jid, tracked jid, failed-jobs-list jid, x:schedule-ids id, and, with
--        the seconds as the member, keys that must expire, such as x:empty, x:worker:<name> and
--        x:rates:<minute>

-- How many seconds work may be left undone: others may be doing it until then.
local PATIENCE = 60

-- The number of jobs examined at the end of a failure group, and of due jobs of a queue.
local LOOKED = 10

local function change(operation, key, ...)
  local args = {...}
  return function()
    call(operation, key, unpack(args))
  end
end

-- Whether a job holds the key of a claim.
local function holds(jid, name)
  local job = fields_of(jid)
  local claim = job and claim_of(job['x:o'])
  return claim and claim.k == name and job.state ~= 'complete' and job.state ~= 'failed'
end

local function check_claim(key, name)
  local text = try('get', key)
  if type(text) ~= 'string' then
    return
  end
  local ends, jid = string.match(text, '^(%S+) (.+)$')
  local other = try('get', before_key(name))
  local held = jid and holds(jid, name) or type(other) == 'string' and holds(other, name)
  local fine = jid and (ends == '0' and held
    or ends ~= '0' and finite(ends, 0) > now and call('pttl', key) > 0)
  if not fine then
    diagnose('claim_left', key, '', jid or '', function()
      call('del', key)
    end)
  end
end

local function check_recurs(key, jid)
  local job = try('hmget', key, 'queue', 'interval', 'klass', 'backlog')
  local queue, interval = job[1], finite(job[2], 0)
  if not is_there(key) then
    return
  elseif not queue or interval <= 0 or interval > LATEST then
    diagnose('incomplete', key, '', 'queue "' .. (queue or '') .. '", interval ' .. interval, false)
  elseif not job[3] or finite(job[4], 0) < 0 then
    diagnose('incomplete', key, '', job[3] and 'backlog ' .. job[4] or 'no klass', false)
  elseif not score_at(queue_key(queue, 'recur'), jid) then
    diagnose('lost', key, '', queue_key(queue, 'recur'), function()
      call('zadd', queue_key(queue, 'recur'), exact(now + interval), jid)
    end, queue_key(queue, 'recur'), 'zset')
  end
end

local function check_history(key, name)
  if is_there(key) and not is_there(job_key(string.sub(name, 1, -#'-history' - 1))) then
    diagnose('orphan', key, '', '', function()
      call('del', key)
    end)
  end
end

-- Whether the settings let a failed job be deleted.
local function is_unkept(job)
  return job.state == 'failed' and not has_option(job['x:o'] or '', KEEP_FAILED) and
    not is_there(job_key(job.id) .. '-dependents')
end

-- Reports failed jobs that the settings do not keep.
local function check_failures(key)
  local _, keep = read_failing()
  if not keep then
    return
  end
  local last = try('lrange', key, -LOOKED, -1)
  local is_long = keep.count >= 0 and finite(try('llen', key), 0) > keep.count
  for i = #last, 1, -1 do
    local job = fields_of(last[i]) or {}
    local at = finite(list_of(job.failure).when, now)
    if (is_long or keep.seconds >= 0 and at + 1 <= now - keep.seconds) and is_unkept(job) then
      diagnose('failed_unkept', key, '', '', false)
      return
    end
  end
end

-- Whether a member of a part of a queue belongs there and was due at a time.
local function was_due(key, jid, at)
  local queue = between(key, prefix .. 'q:', '-recur')
  if queue then
    return try('hget', recur_key(jid), 'queue') == queue
  end
  local job = fields_of(jid)
  return job and place_of(job) == key and (job.state ~= 'running' or finite(job.expires, 0) <= at)
end

-- Reports jobs of a queue that fell due, or had locks that expired, long ago.
local function check_due(key)
  local at = now - PATIENCE
  local jids = try('zrangebyscore', key, 0, exact(at), 'LIMIT', 0, LOOKED)
  for i = 1, #jids do
    if was_due(key, jids[i], at) then
      local due = call('zcount', key, 0, exact(at))
      local reason = string.sub(key, -6) == '-locks' and 'stalled' or 'overdue'
      diagnose(reason, key, '', due .. (due == 1 and ' job' or ' jobs'), false)
      return
    end
  end
end

-- Checks that a queue with jobs is known, once for all its parts.
local function check_listed(key, queue, part)
  local queues = prefix .. 'queues'
  if not is_there(key) or score_at(queues, queue) or score_at(prefix .. 'x:queues', queue) then
    return
  end
  for _, other in ipairs({'work', 'locks', 'scheduled', 'depends', 'recur'}) do
    if other == part then
      diagnose('queue_unlisted', key, '', queue, change('zadd', queues, stamp, queue),
        queues, 'zset')
      return
    elseif is_there(queue_key(queue, other)) then
      return
    end
  end
end

-- Checks a job's deadline.
local function check_life(key, jid)
  local job = fields_of(jid) or {}
  if not has_lifetime(job['x:o'] or '') then
    diagnose('deadline_left', key, jid, '', change('zrem', key, jid))
    return
  end
  local since = job.state == 'failed' and list_of(job.failure).when or job.time
  local ends = end_of_life(jid, job['x:o'], job.state, finite(since, now))
  local stays = job.state == 'failed' and is_there(job_key(jid) .. '-dependents')
  if ends and ends <= now - PATIENCE and score_at(key, jid) <= now and not stays then
    diagnose('expired_unswept', key, jid, job.state or 'in no state', false)
  end
end

-- The checks of single keys by prefix, called with the rest of the key. The checks of members, by
-- key, follow below.
local keys = {
  j = check_history, r = check_recurs,
  f = function(key, group)
    if is_there(key) and not is_in(prefix .. 'failures', group) then
      diagnose('group_unlisted', key, '', '', change('sadd', prefix .. 'failures', group),
        prefix .. 'failures', 'set')
    end
    check_failures(key)
  end,
  q = function(key, name)
    local queue, part = string.match(name, '^(.*)-(%a+)$')
    check_listed(key, queue, part)
    if part == 'locks' or part == 'scheduled' or part == 'recur' then
      check_due(key)
    end
  end,
}

local members = {
  failures = function(key, group)
    if is_in(key, group) and not is_there(group_key(group)) then
      diagnose('group_empty', key, group, '', change('srem', key, group))
    end
  end,
  tracked = function(key, jid)
    if score_at(key, jid) and not is_there(job_key(jid)) then
      diagnose('tracked_gone', key, jid, '', change('zrem', key, jid))
    end
  end,
  ['x:until'] = function(key, jid)
    if score_at(key, jid) then
      check_life(key, jid)
    end
  end,
  ['x:rest'] = function(key, jid)
    local since = score_at(key, jid)
    if since and since <= now - PATIENCE then
      diagnose('dependents_pending', key, jid, state_of(jid) or 'gone', false)
    end
  end,
  ['failed-jobs-list'] = function(key, jid)
    if score_at(key, jid) and state_of(jid) ~= 'failed' then
      diagnose('filed_left', key, jid, state_of(jid) or 'gone', change('zrem', key, jid))
    end
  end,
  ['x:schedule-ids'] = function(key, id)
    if score_at(key, id) and not is_there(schedule_key(id)) then
      diagnose('schedule_empty', key, id, '', change('zrem', key, id))
    end
  end,
}

return each(function(name, member, key)
  local claimed = between(name, 'x:unique:', '')
  if members[name] then
    members[name](key, member)
  elseif claimed then
    check_claim(key, claimed)
  elseif string.sub(name, 1, 2) ~= 'x:' then
    keys[string.sub(name, 1, 1)](key, string.sub(name, 3))
  elseif call('pttl', key) == -1 then
    diagnose('no_expiry', key, member, member, function()
      call('expire', key, member)
    end)
  end
end)
