-- notes: what is noted about jobs elsewhere is still true.
--
-- Items  j:<jid>-history, r:<jid>, f:<group>, failures group, x:unique:<key>, x:until jid, tracked jid,
--        failed-jobs-list jid, x:schedule-ids id, and of those that have to expire, such as x:empty,
--        x:worker:<name> and x:rates:<minute>, the seconds

local function change(command, key, member)
  return function()
    call(command, prefix .. key, member)
  end
end

-- Whether a job holds the key that a claim is for.
local function holds(jid, name)
  local job = read_job(jid)
  if not job then
    return false
  end
  local _, values = options_of(job['x:o'])
  local claim = type(values.u) == 'table' and values.u or {}
  return claim.k == name and job.state ~= 'complete' and job.state ~= 'failed'
end

local function check_claim(key)
  local text = try('get', prefix .. key)
  if type(text) ~= 'string' then
    return
  end
  local ends, jid = string.match(text, '^(%S+) (.+)$')
  local name = between(key, 'x:unique:', '')
  local other = try('get', prefix .. 'x:before:' .. name)
  local held = jid and holds(jid, name) or type(other) == 'string' and holds(other, name)
  local fine = jid and (ends == '0' and held
    or ends ~= '0' and finite(ends, 0) > now and call('pttl', prefix .. key) > 0)
  if not fine then
    problem('claim_left', key, '', jid or '', function()
      call('del', prefix .. key)
    end)
  end
end

local function check_recurs(key)
  local jid = string.sub(key, 3)
  local job = try('hmget', prefix .. key, 'queue', 'interval')
  local queue, interval = job[1], finite(job[2], 0)
  if not exists(key) then
    return
  elseif not queue or interval <= 0 then
    problem('incomplete', key, '', 'queue "' .. (queue or '') .. '", interval ' .. interval, false)
  elseif not score_in('q:' .. queue .. '-recur', jid) then
    problem('lost', key, '', prefix .. 'q:' .. queue .. '-recur', function()
      call('zadd', prefix .. 'q:' .. queue .. '-recur', exact(now + interval), jid)
    end)
  end
end

local function check_history(key)
  local jid = between(key, 'j:', '-history')
  if exists(key) and not exists('j:' .. jid) then
    problem('orphan', key, '', '', function()
      call('del', prefix .. key)
    end)
  end
end

-- What to check of a key by itself, by how it begins; of a member, by the key.
local keys = {
  j = check_history, r = check_recurs,
  f = function(key)
    local group = string.sub(key, 3)
    if exists(key) and not is_in('failures', group) then
      problem('group_unlisted', key, '', '', change('sadd', 'failures', group))
    end
  end,
}

local members = {
  failures = function(key, group)
    if is_in(key, group) and not exists('f:' .. group) then
      problem('group_empty', key, group, '', change('srem', key, group))
    end
  end,
  tracked = function(key, jid)
    if score_in(key, jid) and not exists('j:' .. jid) then
      problem('tracked_gone', key, jid, '', change('zrem', key, jid))
    end
  end,
  ['x:until'] = function(key, jid)
    local letters = options_of(try('hmget', prefix .. 'j:' .. jid, 'x:o')[1] or nil)
    if score_in(key, jid) and not string.find(letters, '[stkK]') then
      problem('deadline_left', key, jid, '', change('zrem', key, jid))
    end
  end,
  ['failed-jobs-list'] = function(key, jid)
    if score_in(key, jid) and state_of(jid) ~= 'failed' then
      problem('filed_left', key, jid, state_of(jid) or 'gone', change('zrem', key, jid))
    end
  end,
  ['x:schedule-ids'] = function(key, id)
    if score_in(key, id) and not exists('x:schedule:' .. id) then
      problem('schedule_empty', key, id, '', change('zrem', key, id))
    end
  end,
}

return each(function(key, member)
  if members[key] then
    members[key](key, member)
  elseif string.sub(key, 1, 9) == 'x:unique:' then
    check_claim(key)
  elseif string.sub(key, 1, 2) ~= 'x:' then
    keys[string.sub(key, 1, 1)](key)
  elseif call('pttl', prefix .. key) == -1 then
    problem('no_expiry', key, member, member, function()
      call('expire', prefix .. key, member)
    end)
  end
end)
