-- notes: keys that refer to jobs are still right.
--
-- Items  j:<jid>-history, r:<jid>, f:<group>, failures group, x:unique:<key>, x:until jid, tracked
--        jid, failed-jobs-list jid, x:schedule-ids id, and, with the seconds as the member, keys
--        that have to expire, such as x:empty, x:worker:<name> and x:rates:<minute>

local function change(operation, key, member)
  return function()
    call(operation, key, member)
  end
end

-- Whether a job holds the key that a claim is for.
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
  local job = try('hmget', key, 'queue', 'interval')
  local queue, interval = job[1], finite(job[2], 0)
  if not is_there(key) then
    return
  elseif not queue or interval <= 0 then
    diagnose('incomplete', key, '', 'queue "' .. (queue or '') .. '", interval ' .. interval, false)
  elseif not score_at(queue_key(queue, 'recur'), jid) then
    diagnose('lost', key, '', queue_key(queue, 'recur'), function()
      call('zadd', queue_key(queue, 'recur'), exact(now + interval), jid)
    end)
  end
end

local function check_history(key, name)
  if is_there(key) and not is_there(job_key(string.sub(name, 1, -#'-history' - 1))) then
    diagnose('orphan', key, '', '', function()
      call('del', key)
    end)
  end
end

-- The checks of single keys, by prefix; each is called with the rest of the key. And of a member,
-- by the key.
local keys = {
  j = check_history, r = check_recurs,
  f = function(key, group)
    if is_there(key) and not is_in(prefix .. 'failures', group) then
      diagnose('group_unlisted', key, '', '', change('sadd', prefix .. 'failures', group))
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
    if score_at(key, jid) and not has_lifetime(try('hmget', job_key(jid), 'x:o')[1] or '') then
      diagnose('deadline_left', key, jid, '', change('zrem', key, jid))
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
