-- sweep: clears away what nobody else has met: jobs whose lives have ended, and failed jobs that are
-- too old or too many, and tracked jobs that are gone. Tells the jobs that wait for failed ones, as
-- the script that fails a job does, of failures by scripts that tell nobody, and releases the jobs
-- that waited for a complete one which had too many of them for one call. Of queues that are named,
-- moves the jobs that have fallen due, and those whose locks have ended, to where a pop would find
-- them.
--
-- KEYS[1]  the namespace prefix
-- ARGV     NOW, queue...; '*' alone: 100 of the known queues, and the next call looks at others;
--          '' alone: only what is to be done about failed jobs, as workers ask for now and then
-- Returns  how many jobs it has deleted, failed, told or moved, or warned that their locks have ended;
--          '' alone: 1 if the next call goes on among the failed jobs, 0 if it begins again
-- Errors   none
-- Cost     3 commands when there is nothing to do, 4 more when jobs have failed, are tracked, or
--          are to be released; it ends at most 100 lives, looks at 100 failed jobs, of 100 groups
--          at most, and 100 tracked ones, fewer failed ones if hundreds wait for them, and releases
--          250. 3 more for each queue, '*' 3 more; it moves at most 100 jobs of queues
-- Repeat   safe
-- Needs    del exists expire get hdel hexists hget hincrby hmget hset lindex llen lpush lrange lrem
--          ltrim publish rpush sadd scard set sismember smembers spop srandmember srem sscan time
--          unlink zadd zcard zcount zincrby zpopmax zpopmin zrange zrangebyscore zrem zrevrange
--          zrevrangebyscore zscore
--
-- The hash x:sweep has the cursor of some failure groups, the group among these, and the place in it,
-- where the next sweep looks at failed jobs, and how many known queues, and tracked jobs, come before
-- those that it looks at.

local call = redis.call
local prefix = KEYS[1]
local try = redis.pcall
local function finite(text, default)
  local n = text and tonumber(text)
  if n and n - n == 0 then
    return n
  end
  return default
end

local stamp, usual = ARGV[1], true
if stamp == '' then
  local time = call('time')
  stamp = time[1] .. string.format('.%06d', time[2])
else
  usual = stamp and string.find(stamp, '^%d+%.?%d*$')
end
local now = usual and stamp + 0 or tonumber(stamp)
if not now or now - now ~= 0 then
  error('Arg "now" missing or not a number: ' .. tostring(stamp))
end
if not usual then
  stamp = string.format('%.17g', now)
end




local seldom1









local unheard = 0












local tellable = 200




local function job_ended(jid, stored, state)
local none = {}
local function split_options(text)
  local letters, body = string.match(text or '', '^(%a+)|(.*)$')
  local ok, values = pcall(cjson.decode, body or '')
  if ok and type(values) == 'table' then
    return letters, values
  end
  return '', {}
end
local function without_letter(text, letter)
  local letters, body = string.match(text, '^(%a+)(|.*)$')
  letters = string.gsub(letters, letter, '')
  return letters == '' and '' or letters .. body
end
local function note_filled(queue, known)
  if (known or call('exists', prefix .. 'x:empty') == 1)
    and try('sadd', prefix .. 'x:filled', queue) == 1 then
    call('expire', prefix .. 'x:filled', 1)
  end
end
local function list_of(text)
  if not text then
    return {}
  end
  local ok, list = pcall(cjson.decode, text)
  if ok and type(list) == 'table' then
    return list
  end
  return {}
end
local function names_of(text)
  local found = {}
  for _, name in ipairs(list_of(text)) do
    if type(name) == 'string' or type(name) == 'number' then
      found[#found + 1] = tostring(name)
    end
  end
  return found
end
local function note_missing(name, queue)
  local key = prefix .. 'x:listed:' .. name
  if try('exists', key) == 1 then
    try('hset', key, queue, '1')
  end
end
local function wake(queue)
  local waiting, list, lapses = prefix .. 'x:idle:' .. queue, nil, nil
  local woken = false
  for i = 1, 2 * 100 do
    local from = list and (prefix .. 'x:list:' .. list) or waiting
    local popped = i <= 100 and try('zpopmin', from) or try('zpopmax', from)
    local name = popped[1]
    if name and string.byte(name) == 1 then
      list, lapses = string.sub(name, 2), popped[2]
    elseif name then
      local idle = try('srem', prefix .. 'x:idle', name) == 1
      woken = idle and finite(try('publish', prefix .. ('x:wake:' .. name), queue), 0) > 0
      if woken then
        break
      end
      unheard = unheard + 1
    elseif list then
      note_missing(list, queue)
      list = nil
    else
      break
    end
  end
  if list then
    try('zadd', waiting, lapses, '\1' .. list)
  end
  return woken
end
local function wake_for(queue, delay)
  return delay < 3600 and wake(queue)
end
local function is_claimed(queue, due, worker)
  local held = try('get', prefix .. 'x:due:' .. queue)
  if type(held) ~= 'string' then
    return false
  end
  local until_then, holder = string.match(held, '^(%S+) (.*)$')
  local at = tonumber(until_then)
  return at and holder ~= worker and at > now and at <= due and
    try('sismember', prefix .. 'x:idle', holder) == 1
end
local function limit_key(name, part)
  return prefix .. 'x:limit:' .. name .. ':' .. part
end
local function limits_of(text)
  local _, values = split_options(text)
  local found, seen = {}, {}
  for _, name in ipairs(type(values.c) == 'table' and values.c or none) do
    if type(name) == 'string' and not seen[name] and #found < 8 then
      seen[name], found[#found + 1] = true, name
    end
  end
  return found
end
local function parse_limit(text)
  local max, rate, per = string.match(text or '', '^(%d+) (%d+) (%S+)$')
  max, rate, per = finite(max, 0), finite(rate, 0), finite(per, 0)
  return max, per > 0 and rate or 0, per
end
local function read_limit(name, most)
  local family = string.match(name, '^([^/]+)/.') or name
  local stored = try('hmget', prefix .. 'x:limits', name, name .. ' hold', family)
  local max, rate, per = parse_limit(stored[1] or stored[3])
  local hold = finite(stored[2], 0)
  local limit = {
    name = name, max = max, rate = rate, per = per, hold = hold > now and hold,
    passed = stored[2] and hold <= now, most = most, list = limit_key(name, 'starts'),
    room = math.huge, started = 0, noted = 0, held = {},
  }
  if max > 0 then
    limit.room = max - finite(try('zcard', limit_key(name, 'held')), 0)
  end
  return limit
end
local function noted_time(text)
  local time = finite(text)
  return time and time <= now + 1 and time or nil
end
local function rate_opens(limit)
  local place = limit.rate - limit.started - 1
  if place < 0 then
    return now + limit.per
  elseif not limit.from or place < limit.from then
    limit.from = math.max(place - limit.most + 1, 0)
    limit.times = try('lrange', limit.list, limit.from, place)
  end
  local time = noted_time(limit.times[place - limit.from + 1])
  local opens = time and time + limit.per
  return opens and opens > now and opens or nil
end
local function slot_end(ends)
  return string.format('%.0f', math.ceil(ends))
end
local function slot_ends(jid)
  local job = try('hmget', prefix .. 'j:' .. jid, 'state', 'queue', 'grace', 'x:o')
  if job[1] ~= 'running' or not job[2] then
    return
  end
  local ends = finite(try('zscore', prefix .. 'q:' .. job[2] .. '-locks', jid))
  if not ends or ends > now or tonumber(job[3]) == 1 or seldom1('has_option', job[4] or '', 'l') then
    return ends
  end
  return ends + finite(try('hget', prefix .. 'config', 'grace-period'), 10)
end
local function heal_limit(limit)
  local held = limit_key(limit.name, 'held')
  limit.healed = true
  local ended = try('zrangebyscore', held, '-inf', stamp, 'LIMIT', 0, 20)
  for i = 1, #ended do
    local ends = slot_ends(ended[i])
    if ends and ends > now then
      try('zadd', held, slot_end(ends), ended[i])
    elseif try('zrem', held, ended[i]) == 1 then
      limit.room = limit.room + 1
    end
  end
end
local function limit_opens(limit, jid)
  local opens = limit.hold or limit.rate > 0 and rate_opens(limit)
  if opens then
    return opens
  elseif limit.room <= 0 and not limit.healed then
    heal_limit(limit)
  end
  if limit.room > 0 then
    return
  end
  local held = limit_key(limit.name, 'held')
  if jid and type(try('zscore', held, jid)) == 'string' then
    return
  end
  limit.ends = limit.ends or finite(try('zrange', held, 0, 0, 'WITHSCORES')[2], now)
  return math.max(limit.ends, now + 1)
end
local function parked_by(state, time, parked)
  local since, name = string.match(type(parked) == 'string' and parked or '', '^(%S*) (.+)$')
  return state == 'scheduled' and since == (time or '') and name or nil
end
local function parked_in(jid, name)
  local job = try('hmget', prefix .. 'j:' .. jid, 'state', 'queue', 'time', 'x:parked')
  return parked_by(job[1], job[3], job[4]) == name and job[2] or nil
end
local function unpark(jid, queue, score)
  local work = prefix .. 'q:' .. queue .. '-work'
  if type(try('zcard', work)) == 'table' or try('zrem', prefix .. 'q:' .. queue .. '-scheduled', jid) ~= 1 then
    return false
  end
  call('zadd', work, score, jid)
  call('hset', prefix .. 'j:' .. jid, 'state', 'waiting')
  call('hdel', prefix .. 'j:' .. jid, 'x:parked')
  note_filled(queue)
  wake(queue)
  return true
end
local function arm(jid, queue, at, paused)
  local scheduled = prefix .. 'q:' .. queue .. '-scheduled'
  local due = finite(try('zscore', scheduled, jid))
  if due and due > at then
    try('zadd', scheduled, string.format('%.17g', at), jid)
    if not paused and not is_claimed(queue, at, '') then
      wake_for(queue, at - now)
    end
  end
end
local function return_parked(limit)
  local wait, returned, passed = limit_key(limit.name, 'wait'), 0, 0
  for _ = 1, 100 do
    local best = try('zrevrange', wait, passed, passed, 'WITHSCORES')
    local jid, score = best[1], best[2]
    if not jid then
      return returned
    end
    local queue = parked_in(jid, limit.name)
    local opens = queue and limit_opens(limit)
    if queue and try('sismember', prefix .. 'paused_queues', queue) == 1 then
      passed = passed + 1
      arm(jid, queue, opens or now, true)
    else
      if opens then
        arm(jid, queue, opens)
        return returned
      end
      try('zrem', wait, jid)
      if queue and unpark(jid, queue, score) then
        limit.started, limit.room = limit.started + 1, limit.room - 1
        returned = returned + 1
      end
    end
  end
  return returned
end
local function limit_freed(name)
  if try('exists', limit_key(name, 'wait')) == 1 then
    return_parked(read_limit(name, 1))
  end
end
local function leave_limits(jid, stored)
  try('hdel', prefix .. 'j:' .. jid, 'x:parked')
  for _, name in ipairs(limits_of(stored)) do
    try('zrem', limit_key(name, 'held'), jid)
    try('zrem', limit_key(name, 'wait'), jid)
    limit_freed(name)
  end
end
local function remove_tags(jid, tags, first)
  for i = first, #tags do
    do
      local jid, tag = jid, tags[i]
      if try('zrem', prefix .. 't:' .. tag, jid) == 1 then
        if finite(try('zincrby', prefix .. 'tags', -1, tag), 1) <= 0 then
          call('zrem', prefix .. 'tags', tag)
        end
      end
    end
  end
end
local function earlier(a, b)
  return a and b and math.min(a, b) or a or b
end
local function end_in_state(values, state, since)
  local gone, complete, failed = finite(values.t), finite(values.k), finite(values.K)
  if state == 'complete' then
    return earlier(gone, complete and since + complete)
  elseif state == 'failed' and failed then
    return failed >= 0 and since + failed or nil
  elseif state ~= 'failed' and state ~= 'running' then
    return earlier(gone, finite(values.s))
  end
  return gone
end
local function is_last_put(jid, at)
  local entries = try('lrange', prefix .. 'j:' .. jid .. '-history', 0, -1)
  for i = #entries, 1, -1 do
    local when = string.match(entries[i], '^%[(%-?%d+)[%d.]*,"put"')
    if when then
      return tonumber(when) <= finite(at, 0)
    end
  end
  return true
end
local function end_of_life(jid, stored, state, since)
  local _, values = split_options(stored)
  local ends = end_in_state(values, state, since)
  if ends and ends <= now and (values.s or values.t) and not is_last_put(jid, values.put) then
    values.s, values.t = nil, nil
    ends = end_in_state(values, state, since)
  end
  return ends
end
local function is_over(jid, stored, state)
  return (string.find(stored, '^%a*[stkK]') ~= nil) and (end_of_life(jid, stored, state, now) or math.huge) <= now
end
local function is_forgotten(stored, state)
  local letter = state == 'complete' and 'k' or state == 'failed' and 'K'
  if not letter or not seldom1('has_option', stored, letter) then
    return false
  end
  local _, values = split_options(stored)
  return finite(values[letter]) == 0
end
local function note_life(jid, ends)
  if ends then
    try('zadd', prefix .. 'x:until', string.format('%.17g', ends), jid)
  else
    try('zrem', prefix .. 'x:until', jid)
  end
end
local function uncount_failure(queue, failure)
  local at = finite(failure.when)
  if at and queue then
    do
      local day, queue, field, by = (at - at % 86400), queue, 'failed', -1
      local key = prefix .. 's:stats:' .. string.format('%d', day) .. ':' .. queue
      if try('hincrby', key, field, by) == by then
        do
          local key, day = key, day
          local keep = day + 86400 * (1 + finite(try('hget', prefix .. 'config', 'stats-history'), 30)) - now
          try('expire', key, string.format('%.0f', math.min(math.max(keep, 60), 1e10)))
        end
      end
    end
  end
end
local function count_from(group, failure, length)
  local jid = try('lindex', prefix .. 'f:' .. group, math.floor(length / 2))
  local middle = type(jid) == 'string' and list_of(try('hget', prefix .. 'j:' .. jid, 'failure')) or {}
  return finite(failure.when, 0) < finite(middle.when, 0) and -1 or 1
end
local function leave_group(jid, failure, count)
  local group = failure.group
  if type(group) == 'string' then
    local key = prefix .. 'f:' .. group
    local length = count and 0 or finite(try('llen', key), 0)
    if length >= 10000 then
      count = count_from(group, failure, length)
    end
    try('lrem', key, count or 0, jid)
    do
      local group = group
      if call('exists', prefix .. 'f:' .. group) == 0 then
        try('srem', prefix .. 'failures', group)
      end
    end
  end
end
local function delete_failed(jid, forced)
  local key = prefix .. 'j:' .. jid
  local job = try('hmget', key, 'state', 'queue', 'failure', 'tags', 'x:o')
  local stored = job[5] or ''
  if job[1] ~= 'failed' then
    return 'moved'
  elseif not forced and seldom1('has_option', stored, 'K') or try('exists', key .. '-dependents') == 1 then
    return 'kept'
  end
  local details = list_of(job[3])
  leave_group(jid, details, -1)
  uncount_failure(job[2], details)
  remove_tags(jid, names_of(job[4]), 1)
  call('del', key, key .. '-history')
  if (string.find(stored, '^%a*[stkK]') ~= nil) then
    note_life(jid)
  end
  return 'deleted'
end
local function result_field(state, time, result)
  return state .. '|' .. (time or '') .. '|' .. result
end
local function read_end(run, jid)
  local job = run('hmget', prefix .. 'j:' .. jid, 'state', 'time', 'failure', 'x:result')
  local state = job[1]
  if not state then
    return false
  end
  local found = {state = state}
  local ended = state == 'complete' or state == 'failed'
  if ended then
    local belongs = result_field(state, job[2], '')
    if string.sub(job[4] or '', 1, #belongs) == belongs then
      found.result = string.sub(job[4], #belongs + 1)
    end
    found.failure = state == 'failed' and job[3] or nil
  end
  return cjson.encode(found), ended
end
local function keep_result(key, state)
  local job = call('hmget', key, 'time', 'x:result', 'x:o')
  local belongs, stored = result_field(state, job[1], ''), job[2] or ''
  local result = string.match(stored, '^%a+|[^|]*|(.*)$')
  if result and string.sub(stored, 1, #belongs) ~= belongs then
    call('hset', key, 'x:result', belongs .. result)
  end
  local left = without_letter(job[3], 'r')
  if left == '' then
    call('hdel', key, 'x:o')
  else
    call('hset', key, 'x:o', left)
  end
end
local function unique_key(name)
  return prefix .. 'x:unique:' .. name
end
local function before_key(name)
  return prefix .. 'x:before:' .. name
end
local function claim_of(text)
  local _, values = split_options(text)
  local claim = values.u
  if type(claim) == 'table' and type(claim.k) == 'string' and claim.k ~= '' then
    return claim
  end
end
local function stored_claim(name)
  local text = try('get', unique_key(name))
  return string.match(type(text) == 'string' and text or '', '^(%S+) (.+)$')
end
local function claim_on(name, state, stored)
  local claim = claim_of(stored)
  if not claim or claim.k ~= name or not state or state == 'complete' or state == 'failed'
    or claim.m == 'start' and state == 'running' then
    return
  end
  return claim
end
local function kept_by(name, jid)
  local job = try('hmget', prefix .. 'j:' .. jid, 'state', 'x:o')
  local claim = claim_on(name, job[1], job[2])
  if claim and not is_over(jid, job[2], job[1]) then
    return jid, job[1], claim
  end
  return nil, job[1], job[2]
end
local function kept_before(name, stored)
  local claim = claim_of(stored)
  local other
  if claim and claim.k == name then
    other = claim.a
  else
    other = try('get', before_key(name))
  end
  if type(other) == 'string' then
    local jid, state, theirs = kept_by(name, other)
    return jid and theirs.m ~= 'for' and jid or nil, state, theirs
  end
end
local function write_claim(jid, claim)
  local key, seconds = unique_key(claim.k), finite(claim.d)
  if claim.m == 'for' and seconds then
    call('set', key, string.format('%.17g', (now + seconds)) .. ' ' .. jid,
      'PX', string.format('%.0f', math.ceil(seconds * 1000)))
  else
    call('set', key, '0 ' .. jid)
  end
  if claim.a then
    call('set', before_key(claim.k), claim.a, 'EX', '604800')
  end
end
local function release_claim(jid, stored, state)
  local claim = claim_of(stored)
  if not claim then
    return
  end
  local ends, holder = stored_claim(claim.k)
  if holder ~= jid or ends ~= '0' and state ~= 'canceled' then
    return
  end
  local other, _, theirs = kept_before(claim.k, stored)
  if other then
    write_claim(other, theirs)
  else
    call('del', unique_key(claim.k), before_key(claim.k))
  end
end
local function is_an_end(state)
  return state == 'complete' or state == 'failed'
end
local function publish_end(jid, state, forgotten)
  local message = is_an_end(state) and read_end(try, jid)
  if not message then
    message = '{"state":"canceled","cause":"' .. state .. '"}'
  elseif #message > 65536 and not forgotten then
    message = '{"state":"' .. state .. '","more":true}'
  end
  try('publish', prefix .. ('x:done:' .. jid), message)
end
local function keep_record(jid, stored, state, forgotten)
  if not is_an_end(state) or forgotten and state == 'complete' then
    note_life(jid)
  elseif forgotten and delete_failed(jid, true) == 'kept' then
    note_life(jid, now)
  elseif not forgotten and seldom1('has_option', stored, state == 'complete' and 'k' or 'K') then
    local _, values = split_options(stored)
    note_life(jid, end_in_state(values, state, now))
  end
end
  local mortal = (string.find(stored, '^%a*[stkK]') ~= nil)
  local forgotten = mortal and is_forgotten(stored, state)
  if is_an_end(state) and seldom1('has_option', stored, 'r') then
    keep_result(prefix .. 'j:' .. jid, state)
  end
  if seldom1('has_option', stored, 'w') then
    publish_end(jid, state, forgotten)
  end
  if seldom1('has_option', stored, 'u') then
    release_claim(jid, stored, state)
  end
  if seldom1('has_option', stored, 'c') and state ~= 'complete' then
    leave_limits(jid, stored)
  end
  if state == 'failed' and seldom1('has_option', stored, 'd') then
    seldom1('tell_all', {jid}, '0', job_ended)
  end
  if mortal then
    keep_record(jid, stored, state, forgotten)
  end
  return forgotten and state == 'complete'
end




local dropped = 0
local made_last = 0

local releasable = math.huge




local function some_groups(cursor, first)
  local reply, groups = try('sscan', prefix .. 'failures', cursor, 'COUNT', 100), {}
  for _, group in ipairs(reply[2] or {}) do
    if group >= first then
      groups[#groups + 1] = group
    end
  end
  table.sort(groups)
  return groups, reply[1] or '0'
end
local function tell_group(group, from, limit)
  local jids, told = try('lrange', prefix .. 'f:' .. group, from, from + limit - 1), 0
  for i = 1, #jids do
    if tellable <= 0 then
      return told, i - 1
    end
    local job = try('hmget', prefix .. 'j:' .. jids[i], 'state', 'x:o')
    if job[1] == 'failed' and job[2] and seldom1('has_option', job[2], 'd') then
      told = told + seldom1('tell_all', {jids[i]}, '0', job_ended, true)
    end
  end
  return told, #jids
end
local function sweep_failures()
  local sweep, left, done = prefix .. 'x:sweep', 100, 0
  local at = try('hmget', sweep, 'cursor', 'group', 'from')
  local cursor, first, from = at[1] or '0', at[2] or '', finite(at[3], 0)
  local _, keep
  do
    local values = try('hmget', prefix .. 'config', 'max-job-history', 'jobs-failed-history',
      'jobs-failed-history-count')
    _, keep = finite(values[1], 100), ((values[2] or values[3]) and {seconds = finite(values[2], -1), count = finite(values[3], -1)})
  end
  if keep and keep.seconds >= 0 then
    done = seldom1('clear_list', keep.seconds)
  end
  repeat
    local groups, next_cursor = some_groups(cursor, first)
    for i = 1, #groups do
      local group = groups[i]
      if group ~= first then
        from = 0
      end
      local cleared = keep and seldom1('clear_group', group, keep, left) or 0
      local told, looked = tell_group(group, from, left)
      done, left = done + cleared + told, left - math.max(cleared, looked, 1)
      if left <= 0 or tellable <= 0 then
        try('hset', sweep, 'cursor', cursor, 'group', group, 'from', from + looked)
        return done
      end
    end
    cursor, first, from = next_cursor, '', 0
  until cursor == '0'
  try('hdel', sweep, 'cursor', 'group', 'from')
  return done
end
local room = 100

local function sweep_queue(queue)
  local lost, recur = call('zcount', prefix .. 'q:' .. queue .. '-locks', '-inf', stamp), call('zcount', prefix .. 'q:' .. queue .. '-recur', '-inf', stamp)
  local scheduled = call('zcount', prefix .. 'q:' .. queue .. '-scheduled', '-inf', stamp)
  if room <= 0 or lost + recur + scheduled == 0 then
    return 0
  end
  return seldom1('move_due', queue, lost, recur, scheduled)
end
seldom1 = function(which, ...)
if which == 'has_option' then
local text, letter = ...
  return string.find(text, '^%a*' .. letter) ~= nil
elseif which == 'clear_list' then
local seconds = ...
local function list_of(text)
  if not text then
    return {}
  end
  local ok, list = pcall(cjson.decode, text)
  if ok and type(list) == 'table' then
    return list
  end
  return {}
end
local function names_of(text)
  local found = {}
  for _, name in ipairs(list_of(text)) do
    if type(name) == 'string' or type(name) == 'number' then
      found[#found + 1] = tostring(name)
    end
  end
  return found
end
local function remove_tags(jid, tags, first)
  for i = first, #tags do
    do
      local jid, tag = jid, tags[i]
      if try('zrem', prefix .. 't:' .. tag, jid) == 1 then
        if finite(try('zincrby', prefix .. 'tags', -1, tag), 1) <= 0 then
          call('zrem', prefix .. 'tags', tag)
        end
      end
    end
  end
end
local function note_life(jid, ends)
  if ends then
    try('zadd', prefix .. 'x:until', string.format('%.17g', ends), jid)
  else
    try('zrem', prefix .. 'x:until', jid)
  end
end
local function uncount_failure(queue, failure)
  local at = finite(failure.when)
  if at and queue then
    do
      local day, queue, field, by = (at - at % 86400), queue, 'failed', -1
      local key = prefix .. 's:stats:' .. string.format('%d', day) .. ':' .. queue
      if try('hincrby', key, field, by) == by then
        do
          local key, day = key, day
          local keep = day + 86400 * (1 + finite(try('hget', prefix .. 'config', 'stats-history'), 30)) - now
          try('expire', key, string.format('%.0f', math.min(math.max(keep, 60), 1e10)))
        end
      end
    end
  end
end
local function count_from(group, failure, length)
  local jid = try('lindex', prefix .. 'f:' .. group, math.floor(length / 2))
  local middle = type(jid) == 'string' and list_of(try('hget', prefix .. 'j:' .. jid, 'failure')) or {}
  return finite(failure.when, 0) < finite(middle.when, 0) and -1 or 1
end
local function leave_group(jid, failure, count)
  local group = failure.group
  if type(group) == 'string' then
    local key = prefix .. 'f:' .. group
    local length = count and 0 or finite(try('llen', key), 0)
    if length >= 10000 then
      count = count_from(group, failure, length)
    end
    try('lrem', key, count or 0, jid)
    do
      local group = group
      if call('exists', prefix .. 'f:' .. group) == 0 then
        try('srem', prefix .. 'failures', group)
      end
    end
  end
end
local function delete_failed(jid, forced)
  local key = prefix .. 'j:' .. jid
  local job = try('hmget', key, 'state', 'queue', 'failure', 'tags', 'x:o')
  local stored = job[5] or ''
  if job[1] ~= 'failed' then
    return 'moved'
  elseif not forced and seldom1('has_option', stored, 'K') or try('exists', key .. '-dependents') == 1 then
    return 'kept'
  end
  local details = list_of(job[3])
  leave_group(jid, details, -1)
  uncount_failure(job[2], details)
  remove_tags(jid, names_of(job[4]), 1)
  call('del', key, key .. '-history')
  if (string.find(stored, '^%a*[stkK]') ~= nil) then
    note_life(jid)
  end
  return 'deleted'
end
  local filed, deleted = prefix .. 'failed-jobs-list', 0
  local old = try('zrangebyscore', filed, '-inf', string.format('%.17g', (now - seconds)), 'LIMIT', 0, 100)
  for i = 1, #old do
    local outcome = delete_failed(old[i])
    if outcome == 'kept' then
      call('zadd', filed, stamp, old[i])
    else
      call('zrem', filed, old[i])
      deleted = deleted + (outcome == 'deleted' and 1 or 0)
    end
  end
  return deleted
elseif which == 'clear_group' then
local group, keep, limit = ...
local function list_of(text)
  if not text then
    return {}
  end
  local ok, list = pcall(cjson.decode, text)
  if ok and type(list) == 'table' then
    return list
  end
  return {}
end
local function names_of(text)
  local found = {}
  for _, name in ipairs(list_of(text)) do
    if type(name) == 'string' or type(name) == 'number' then
      found[#found + 1] = tostring(name)
    end
  end
  return found
end
local function remove_tags(jid, tags, first)
  for i = first, #tags do
    do
      local jid, tag = jid, tags[i]
      if try('zrem', prefix .. 't:' .. tag, jid) == 1 then
        if finite(try('zincrby', prefix .. 'tags', -1, tag), 1) <= 0 then
          call('zrem', prefix .. 'tags', tag)
        end
      end
    end
  end
end
local function note_life(jid, ends)
  if ends then
    try('zadd', prefix .. 'x:until', string.format('%.17g', ends), jid)
  else
    try('zrem', prefix .. 'x:until', jid)
  end
end
local function uncount_failure(queue, failure)
  local at = finite(failure.when)
  if at and queue then
    do
      local day, queue, field, by = (at - at % 86400), queue, 'failed', -1
      local key = prefix .. 's:stats:' .. string.format('%d', day) .. ':' .. queue
      if try('hincrby', key, field, by) == by then
        do
          local key, day = key, day
          local keep = day + 86400 * (1 + finite(try('hget', prefix .. 'config', 'stats-history'), 30)) - now
          try('expire', key, string.format('%.0f', math.min(math.max(keep, 60), 1e10)))
        end
      end
    end
  end
end
local function count_from(group, failure, length)
  local jid = try('lindex', prefix .. 'f:' .. group, math.floor(length / 2))
  local middle = type(jid) == 'string' and list_of(try('hget', prefix .. 'j:' .. jid, 'failure')) or {}
  return finite(failure.when, 0) < finite(middle.when, 0) and -1 or 1
end
local function leave_group(jid, failure, count)
  local group = failure.group
  if type(group) == 'string' then
    local key = prefix .. 'f:' .. group
    local length = count and 0 or finite(try('llen', key), 0)
    if length >= 10000 then
      count = count_from(group, failure, length)
    end
    try('lrem', key, count or 0, jid)
    do
      local group = group
      if call('exists', prefix .. 'f:' .. group) == 0 then
        try('srem', prefix .. 'failures', group)
      end
    end
  end
end
local function unfile_failures(jids)
  do
    local run, operation, key, list = try, 'zrem', prefix .. 'failed-jobs-list', jids
    for from = 1, #list, 1000 do
      run(operation, key, unpack(list, from, math.min(from + 999, #list)))
    end
  end
end
local function delete_failed(jid, forced)
  local key = prefix .. 'j:' .. jid
  local job = try('hmget', key, 'state', 'queue', 'failure', 'tags', 'x:o')
  local stored = job[5] or ''
  if job[1] ~= 'failed' then
    return 'moved'
  elseif not forced and seldom1('has_option', stored, 'K') or try('exists', key .. '-dependents') == 1 then
    return 'kept'
  end
  local details = list_of(job[3])
  leave_group(jid, details, -1)
  uncount_failure(job[2], details)
  remove_tags(jid, names_of(job[4]), 1)
  call('del', key, key .. '-history')
  if (string.find(stored, '^%a*[stkK]') ~= nil) then
    note_life(jid)
  end
  return 'deleted'
end
  local key, deleted = prefix .. 'f:' .. group, 0
  local last = try('lrange', key, -limit, -1)
  local excess = keep.count >= 0 and finite(try('llen', key), 0) - keep.count or 0
  for i = #last, 1, -1 do
    local failure = list_of(try('hget', prefix .. 'j:' .. last[i], 'failure'))
    local is_old = keep.seconds >= 0 and finite(failure.when, now) + 1 <= now - keep.seconds
    if excess <= 0 and not is_old then
      return deleted
    end
    local outcome = delete_failed(last[i])
    if outcome == 'deleted' then
      unfile_failures({last[i]})
    elseif outcome == 'moved' then
      leave_group(last[i], {group = group}, -1)
    end
    excess = excess - (outcome == 'kept' and 0 or 1)
    deleted = deleted + (outcome == 'deleted' and 1 or 0)
  end
  return deleted
elseif which == 'tell_all' then
local failed, cursor, ended, again = ...
local function write_first(...)
  local reply = try(...)
  if type(reply) == 'table' and reply.err then
    do
      call('del', prefix .. 'x:none')
    end
    return try(...)
  end
  return reply
end
local function may_write(key)
  return not redis.acl_check_cmd or redis.acl_check_cmd('del', key)
end
local none = {}
local function split_options(text)
  local letters, body = string.match(text or '', '^(%a+)|(.*)$')
  local ok, values = pcall(cjson.decode, body or '')
  if ok and type(values) == 'table' then
    return letters, values
  end
  return '', {}
end
local function finite_values(values)
  local found = {}
  for key, value in pairs(values) do
    if type(value) == 'table' then
      value = finite_values(value)
    end
    found[key] = (type(value) ~= 'number' or finite(value)) and value
  end
  return found
end
local function join_options(letters, values)
  local ok, body = pcall(cjson.encode, values)
  return letters .. '|' .. (ok and body or cjson.encode(finite_values(values)))
end
local function leave_queue(queue, jid)
  try('zrem', prefix .. 'q:' .. queue .. '-work', jid)
  try('zrem', prefix .. 'q:' .. queue .. '-locks', jid)
  try('zrem', prefix .. 'q:' .. queue .. '-scheduled', jid)
  try('zrem', prefix .. 'q:' .. queue .. '-depends', jid)
end
local function note_filled(queue, known)
  if (known or call('exists', prefix .. 'x:empty') == 1)
    and try('sadd', prefix .. 'x:filled', queue) == 1 then
    call('expire', prefix .. 'x:filled', 1)
  end
end
local function fair_share(text)
  local _, values = split_options(text)
  local share = values.g
  if type(share) == 'table' and type(share.t) == 'string' and share.t ~= '' then
    return share.t, math.min(math.max(finite(share.w, 1), 0.01), 100)
  end
end
local function first_turn(queue, priority)
  local first = try('zrevrangebyscore', prefix .. 'q:' .. queue .. '-work', string.format('%.17g', (priority - 0.5)),
    '(' .. string.format('%.17g', (priority - 1)), 'WITHSCORES', 'LIMIT', 0, 1)
  local score = finite(first[2])
  return score and math.max(priority - 0.5 - score, 0), first.err
end
local function turn_step(priority)
  local _, exponent = math.frexp(math.abs(priority) + 1)
  return 2 ^ (exponent - 45)
end
local function turns_key(queue, priority)
  return prefix .. 'x:fair:' .. string.format('%.17g', priority) .. ':' .. queue
end
local function write_turn(key, tenant, ends, waits, passed)
  try('zadd', key, ends, tenant)
  if not waits then
    if try('zcard', key) ~= 1 then
      try('unlink', key)
      try('zadd', key, ends, tenant)
    end
    try('expire', key, 604800)
  end
  for _, other in ipairs(passed) do
    if other ~= tenant then
      try('zrem', key, other)
    end
  end
end
local function fair_score(queue, priority, stored, known)
  local tenant, weight = fair_share(stored)
  priority = finite(priority, 0)
  if not tenant or math.abs(priority) > 10000 then
    return
  end
  local key = turns_key(queue, priority)
  local first, waits, passed = known[key], true, {}
  if not first then
    local damaged
    first, damaged = first_turn(queue, priority)
    if damaged then
      return
    end
    waits, first = first ~= nil, first or 0
    passed = waits and try('zrangebyscore', key, '-inf', string.format('%.17g', first), 'LIMIT', 0, 2) or {}
    known[key] = first
  end
  local last = waits and finite(try('zscore', key, tenant), 0) or 0
  local turn = math.min(math.max(first, last), 0.49)
  write_turn(key, tenant, string.format('%.17g', (turn + turn_step(priority) / weight)), waits, passed)
  return string.format('%.17g', (priority - 0.5 - turn))
end
local function leave_turns(queue, priority)
  priority = finite(priority, 0)
  local first, damaged = first_turn(queue, priority)
  local key = turns_key(queue, priority)
  if first then
    try('expire', key, 604800)
  elseif not damaged then
    try('unlink', key)
  end
end
local function score_of(queue, priority, stored, turns)
  return stored and seldom1('has_option', stored, 'g') and fair_score(queue, priority, stored, turns) or
    (finite(priority, 0) - now / 10000000000)
end
local function list_of(text)
  if not text then
    return {}
  end
  local ok, list = pcall(cjson.decode, text)
  if ok and type(list) == 'table' then
    return list
  end
  return {}
end
local function entry(at, what, details)
  return '[' .. string.format('%d', at) .. ',' .. what .. (details and ',' .. details or '') .. ']'
end
local function trim_history(key, length, cap)
  cap = cap or finite((try('hget', prefix .. 'config', 'max-job-history')), 100)
  if cap > 0 and length > cap then
    local first = call('lindex', key, 0)
    call('ltrim', key, -math.max(cap - 1, 1), -1)
    call('lpush', key, first)
  end
end
local function record(key, text, cap)
  local length = try('rpush', key .. '-history', text)
  if length ~= 1 and length ~= 2 and type(length) == 'number' and (not cap or length > cap) then
    trim_history(key .. '-history', length, cap)
  end
  return length
end
local function move_stage(key, stage)
  local popped, failed, done = finite(stage.popped), finite(stage.failed), finite(stage.done)
  local queue = cjson.encode({q = (type(stage.q) == 'string' and stage.q or nil)})
  try('rpush', key, ('[' .. string.format('%d', (finite(stage.put, 0))) .. ',"put"' .. (queue and ',' .. queue or '') .. ']'))
  if popped then
    local worker = cjson.encode({worker = (type(stage.worker) == 'string' and stage.worker or nil)})
    try('rpush', key, ('[' .. string.format('%d', popped) .. ',"popped"' .. (worker and ',' .. worker or '') .. ']'))
  end
  if failed then
    try('rpush', key, entry(failed, '"failed"'))
  end
  if done then
    try('rpush', key, entry(done, '"done"'))
  end
end
local function move_history(jid, text)
  local key = prefix .. 'j:' .. jid .. '-history'
  if not may_write(key) then
    return
  end
  call('hdel', prefix .. 'j:' .. jid, 'history')
  for _, stage in ipairs(list_of(text)) do
    if type(stage) == 'table' then
      move_stage(key, stage)
    end
  end
end
local function adopt_history(jid, text)
  if text then
    move_history(jid, text)
  end
end
local function note_missing(name, queue)
  local key = prefix .. 'x:listed:' .. name
  if try('exists', key) == 1 then
    try('hset', key, queue, '1')
  end
end
local function wake(queue)
  local waiting, list, lapses = prefix .. 'x:idle:' .. queue, nil, nil
  local woken = false
  for i = 1, 2 * 100 do
    local from = list and (prefix .. 'x:list:' .. list) or waiting
    local popped = i <= 100 and try('zpopmin', from) or try('zpopmax', from)
    local name = popped[1]
    if name and string.byte(name) == 1 then
      list, lapses = string.sub(name, 2), popped[2]
    elseif name then
      local idle = try('srem', prefix .. 'x:idle', name) == 1
      woken = idle and finite(try('publish', prefix .. ('x:wake:' .. name), queue), 0) > 0
      if woken then
        break
      end
      unheard = unheard + 1
    elseif list then
      note_missing(list, queue)
      list = nil
    else
      break
    end
  end
  if list then
    try('zadd', waiting, lapses, '\1' .. list)
  end
  return woken
end
local function wake_for(queue, delay)
  return delay < 3600 and wake(queue)
end
local function undepend(jid, other)
  try('srem', prefix .. 'j:' .. other .. '-dependents', jid)
  try('srem', prefix .. 'j:' .. jid .. '-dependencies', other)
end
local function free(jid, released)
  local key = prefix .. 'j:' .. jid
  local job = try('hmget', key, 'queue', 'priority', 'scheduled', 'x:undelayed', 'x:o')
  local queue, due = job[1], released and not job[4] and finite(job[3])
  if not queue then
    return
  end
  local state, place, score = 'scheduled', prefix .. 'q:' .. queue .. '-scheduled', job[3]
  if not due then
    state, place, score = 'waiting', prefix .. 'q:' .. queue .. '-work', score_of(queue, job[2], job[5], {})
  end
  local reply = try('zadd', place, score, jid)
  if type(reply) == 'table' then
    return reply.err
  end
  try('zrem', prefix .. 'q:' .. queue .. '-depends', jid)
  call('hset', key, 'state', state)
  if due then
    call('hdel', key, 'scheduled')
  end
  if job[4] then
    call('hdel', key, 'x:undelayed')
  end
  note_filled(queue)
  wake_for(queue, due and due - now or 0)
end
local function add_failure(jid, group)
  local reply = write_first('lpush', prefix .. 'f:' .. group, jid)
  if type(reply) == 'table' then
    return reply.err
  end
  try('sadd', prefix .. 'failures', group)
end
local function mark_exhausted(jid, queue, group, failure, cap)
  do
    local key, text, cap = prefix .. 'j:' .. jid, entry(now, '"failed"', cjson.encode({group = group})), cap
    local length = try('rpush', key .. '-history', text)
    if length ~= 1 and length ~= 2 and type(length) == 'number' and (not cap or length > cap) then
      trim_history(key .. '-history', length, cap)
    end
  end
  call('hset', prefix .. 'j:' .. jid, 'state', 'failed', 'worker', '', 'expires', '', 'failure', failure)
  do
    local queue = queue
    do
      local day, queue, field, by = (now - now % 86400), queue, 'failures', 1
      local key = prefix .. 's:stats:' .. string.format('%d', day) .. ':' .. queue
      if try('hincrby', key, field, by) == by then
        do
          local key, day = key, day
          local keep = day + 86400 * (1 + finite(try('hget', prefix .. 'config', 'stats-history'), 30)) - now
          try('expire', key, string.format('%.0f', math.min(math.max(keep, 60), 1e10)))
        end
      end
    end
    do
      local day, queue, field, by = (now - now % 86400), queue, 'failed', 1
      local key = prefix .. 's:stats:' .. string.format('%d', day) .. ':' .. queue
      if try('hincrby', key, field, by) == by then
        do
          local key, day = key, day
          local keep = day + 86400 * (1 + finite(try('hget', prefix .. 'config', 'stats-history'), 30)) - now
          try('expire', key, string.format('%.0f', math.min(math.max(keep, 60), 1e10)))
        end
      end
    end
  end
  do
    local channel, jid = 'failed', jid
    if (type(try('zscore', prefix .. 'tracked', jid)) == 'string') then
      try('publish', prefix .. channel, jid)
    end
  end
end
local function read_failing()
  local values = try('hmget', prefix .. 'config', 'max-job-history', 'jobs-failed-history',
    'jobs-failed-history-count')
  return finite(values[1], 100), ((values[2] or values[3]) and {seconds = finite(values[2], -1), count = finite(values[3], -1)})
end
local function file_failure(jid, group, keep, stored)
  local left = 100
  if keep.seconds >= 0 then
    if not (stored and seldom1('has_option', stored, 'K')) then
      try('zadd', prefix .. 'failed-jobs-list', stamp, jid)
    end
    left = left - seldom1('clear_list', keep.seconds)
  end
  if left > 0 then
    seldom1('clear_group', group, keep, math.min(left, 10))
  end
end
local function rest_key(jid)
  return prefix .. 'x:rest:' .. jid
end
local function fail_unasked(jid, queue, group, message, stored, ended)
  local key = prefix .. 'j:' .. jid
  leave_queue(queue, jid)
  if seldom1('has_option', stored, 'g') then
    leave_turns(queue, try('hget', key, 'priority'))
  end
  for _, other in ipairs(try('smembers', key .. '-dependencies')) do
    undepend(jid, other)
  end
  local cap, keep = read_failing()
  mark_exhausted(jid, queue, group, cjson.encode({group = group, message = message, when = (math.floor(now)), worker = ''}), cap)
  try('publish', prefix .. 'log', (cjson.encode({ jid = jid, event = 'failed', worker = '', group = group, message = message, })))
  ended(jid, stored, 'failed')
  if keep then
    file_failure(jid, group, keep, stored)
  end
end
local function let_run(jid, other)
  local dependencies = prefix .. 'j:' .. jid .. '-dependencies'
  if type(try('srem', dependencies, other)) == 'table' then
    return false
  elseif call('scard', dependencies) == 0 and free(jid, true) then
    call('sadd', dependencies, other)
    return false
  end
  try('srem', prefix .. 'j:' .. other .. '-dependents', jid)
  return true
end
local function tell(jid, other, group, ended)
  local key = prefix .. 'j:' .. jid
  local job = try('hmget', key, 'state', 'queue', 'x:o', 'history')
  local letters, values = split_options(job[3])
  local policy = values.f
  if job[1] ~= 'depends' or not job[2] or type(policy) ~= 'table'
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
  adopt_history(jid, job[4])
  record(key, entry(now, '"dependency-failed"', cjson.encode({jid = other, group = group})))
  if runs then
    return true
  end
  local message = 'It depends on ' .. other .. ', which has failed in ' .. group
  local alone = string.gsub(job[3], '^(%a*)d', '%1', 1)
  fail_unasked(jid, job[2], 'failed-dependency', message, alone, ended)
  return true, job[3]
end
local function group_of(jid)
  local failure = try('hget', prefix .. 'j:' .. jid, 'failure')
  local group = type(failure) == 'string' and list_of(failure).group
  return type(group) == 'string' and group or ''
end
local function tell_each(jids, other, failed, ended)
  local group, minded = group_of(other), 0
  for i = 1, #jids do
    local minds, stored = tell(jids[i], other, group, ended)
    minded = minded + (minds and 1 or 0)
    failed[#failed + 1] = stored and seldom1('has_option', stored, 'd') and jids[i] or nil
  end
  tellable = tellable - #jids
  return minded
end
local function leave_untold(jid, cursor)
  local reply = try('set', rest_key(jid), cursor, 'NX')
  if reply and not reply.err then
    try('zadd', prefix .. 'x:rest', stamp, jid)
  end
end
local function dependents_from(jid, cursor)
  local key = prefix .. 'j:' .. jid .. '-dependents'
  local all = cursor == '0' and try('srandmember', key, tellable + 1)
  if all and #all <= tellable then
    return all, '0'
  end
  local page = try('sscan', key, cursor, 'COUNT', tellable)
  return page[2] or none, page[1] or '0'
end
  local at, minded = 1, 0
  while failed[at] do
    local jid = failed[at]
    repeat
      if tellable <= 0 then
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
elseif which == 'end_lives' then
local limit = ...
local function write_first(...)
  local reply = try(...)
  if type(reply) == 'table' and reply.err then
    do
      call('del', prefix .. 'x:none')
    end
    return try(...)
  end
  return reply
end
local function split_options(text)
  local letters, body = string.match(text or '', '^(%a+)|(.*)$')
  local ok, values = pcall(cjson.decode, body or '')
  if ok and type(values) == 'table' then
    return letters, values
  end
  return '', {}
end
local function publish(channel, message)
  return try('publish', prefix .. channel, message)
end
local function leave_queue(queue, jid)
  try('zrem', prefix .. 'q:' .. queue .. '-work', jid)
  try('zrem', prefix .. 'q:' .. queue .. '-locks', jid)
  try('zrem', prefix .. 'q:' .. queue .. '-scheduled', jid)
  try('zrem', prefix .. 'q:' .. queue .. '-depends', jid)
end
local function first_turn(queue, priority)
  local first = try('zrevrangebyscore', prefix .. 'q:' .. queue .. '-work', string.format('%.17g', (priority - 0.5)),
    '(' .. string.format('%.17g', (priority - 1)), 'WITHSCORES', 'LIMIT', 0, 1)
  local score = finite(first[2])
  return score and math.max(priority - 0.5 - score, 0), first.err
end
local function turns_key(queue, priority)
  return prefix .. 'x:fair:' .. string.format('%.17g', priority) .. ':' .. queue
end
local function leave_turns(queue, priority)
  priority = finite(priority, 0)
  local first, damaged = first_turn(queue, priority)
  local key = turns_key(queue, priority)
  if first then
    try('expire', key, 604800)
  elseif not damaged then
    try('unlink', key)
  end
end
local function list_of(text)
  if not text then
    return {}
  end
  local ok, list = pcall(cjson.decode, text)
  if ok and type(list) == 'table' then
    return list
  end
  return {}
end
local function names_of(text)
  local found = {}
  for _, name in ipairs(list_of(text)) do
    if type(name) == 'string' or type(name) == 'number' then
      found[#found + 1] = tostring(name)
    end
  end
  return found
end
local function entry(at, what, details)
  return '[' .. string.format('%d', at) .. ',' .. what .. (details and ',' .. details or '') .. ']'
end
local function trim_history(key, length, cap)
  cap = cap or finite((try('hget', prefix .. 'config', 'max-job-history')), 100)
  if cap > 0 and length > cap then
    local first = call('lindex', key, 0)
    call('ltrim', key, -math.max(cap - 1, 1), -1)
    call('lpush', key, first)
  end
end
local function note_missing(name, queue)
  local key = prefix .. 'x:listed:' .. name
  if try('exists', key) == 1 then
    try('hset', key, queue, '1')
  end
end
local function wake(queue)
  local waiting, list, lapses = prefix .. 'x:idle:' .. queue, nil, nil
  local woken = false
  for i = 1, 2 * 100 do
    local from = list and (prefix .. 'x:list:' .. list) or waiting
    local popped = i <= 100 and try('zpopmin', from) or try('zpopmax', from)
    local name = popped[1]
    if name and string.byte(name) == 1 then
      list, lapses = string.sub(name, 2), popped[2]
    elseif name then
      local idle = try('srem', prefix .. 'x:idle', name) == 1
      woken = idle and finite(try('publish', prefix .. ('x:wake:' .. name), queue), 0) > 0
      if woken then
        break
      end
      unheard = unheard + 1
    elseif list then
      note_missing(list, queue)
      list = nil
    else
      break
    end
  end
  if list then
    try('zadd', waiting, lapses, '\1' .. list)
  end
  return woken
end
local function wake_for_slot(queue)
  if try('hexists', prefix .. 'config', queue .. '-max-concurrency') == 1 then
    wake(queue)
  end
end
local function remove_tags(jid, tags, first)
  for i = first, #tags do
    do
      local jid, tag = jid, tags[i]
      if try('zrem', prefix .. 't:' .. tag, jid) == 1 then
        if finite(try('zincrby', prefix .. 'tags', -1, tag), 1) <= 0 then
          call('zrem', prefix .. 'tags', tag)
        end
      end
    end
  end
end
local function earlier(a, b)
  return a and b and math.min(a, b) or a or b
end
local function end_in_state(values, state, since)
  local gone, complete, failed = finite(values.t), finite(values.k), finite(values.K)
  if state == 'complete' then
    return earlier(gone, complete and since + complete)
  elseif state == 'failed' and failed then
    return failed >= 0 and since + failed or nil
  elseif state ~= 'failed' and state ~= 'running' then
    return earlier(gone, finite(values.s))
  end
  return gone
end
local function is_last_put(jid, at)
  local entries = try('lrange', prefix .. 'j:' .. jid .. '-history', 0, -1)
  for i = #entries, 1, -1 do
    local when = string.match(entries[i], '^%[(%-?%d+)[%d.]*,"put"')
    if when then
      return tonumber(when) <= finite(at, 0)
    end
  end
  return true
end
local function end_of_life(jid, stored, state, since)
  local _, values = split_options(stored)
  local ends = end_in_state(values, state, since)
  if ends and ends <= now and (values.s or values.t) and not is_last_put(jid, values.put) then
    values.s, values.t = nil, nil
    ends = end_in_state(values, state, since)
  end
  return ends
end
local function note_life(jid, ends)
  if ends then
    try('zadd', prefix .. 'x:until', string.format('%.17g', ends), jid)
  else
    try('zrem', prefix .. 'x:until', jid)
  end
end
local function undepend(jid, other)
  try('srem', prefix .. 'j:' .. other .. '-dependents', jid)
  try('srem', prefix .. 'j:' .. jid .. '-dependencies', other)
end
local function expire_stats(key, day)
  local keep = day + 86400 * (1 + finite(try('hget', prefix .. 'config', 'stats-history'), 30)) - now
  try('expire', key, string.format('%.0f', math.min(math.max(keep, 60), 1e10)))
end
local function tally_expired(queue)
  local day = (now - now % 86400)
  local key = prefix .. 'x:stats:' .. string.format('%d', day) .. ':' .. queue
  if try('hincrby', key, 'expired', 1) == 1 then
    expire_stats(key, day)
  end
end
local function add_failure(jid, group)
  local reply = write_first('lpush', prefix .. 'f:' .. group, jid)
  if type(reply) == 'table' then
    return reply.err
  end
  try('sadd', prefix .. 'failures', group)
end
local function count_from(group, failure, length)
  local jid = try('lindex', prefix .. 'f:' .. group, math.floor(length / 2))
  local middle = type(jid) == 'string' and list_of(try('hget', prefix .. 'j:' .. jid, 'failure')) or {}
  return finite(failure.when, 0) < finite(middle.when, 0) and -1 or 1
end
local function mark_exhausted(jid, queue, group, failure, cap)
  do
    local key, text, cap = prefix .. 'j:' .. jid, entry(now, '"failed"', cjson.encode({group = group})), cap
    local length = try('rpush', key .. '-history', text)
    if length ~= 1 and length ~= 2 and type(length) == 'number' and (not cap or length > cap) then
      trim_history(key .. '-history', length, cap)
    end
  end
  call('hset', prefix .. 'j:' .. jid, 'state', 'failed', 'worker', '', 'expires', '', 'failure', failure)
  do
    local queue = queue
    do
      local day, queue, field, by = (now - now % 86400), queue, 'failures', 1
      local key = prefix .. 's:stats:' .. string.format('%d', day) .. ':' .. queue
      if try('hincrby', key, field, by) == by then
        do
          local key, day = key, day
          local keep = day + 86400 * (1 + finite(try('hget', prefix .. 'config', 'stats-history'), 30)) - now
          try('expire', key, string.format('%.0f', math.min(math.max(keep, 60), 1e10)))
        end
      end
    end
    do
      local day, queue, field, by = (now - now % 86400), queue, 'failed', 1
      local key = prefix .. 's:stats:' .. string.format('%d', day) .. ':' .. queue
      if try('hincrby', key, field, by) == by then
        do
          local key, day = key, day
          local keep = day + 86400 * (1 + finite(try('hget', prefix .. 'config', 'stats-history'), 30)) - now
          try('expire', key, string.format('%.0f', math.min(math.max(keep, 60), 1e10)))
        end
      end
    end
  end
  do
    local channel, jid = 'failed', jid
    if (type(try('zscore', prefix .. 'tracked', jid)) == 'string') then
      try('publish', prefix .. channel, jid)
    end
  end
end
local function read_failing()
  local values = try('hmget', prefix .. 'config', 'max-job-history', 'jobs-failed-history',
    'jobs-failed-history-count')
  return finite(values[1], 100), ((values[2] or values[3]) and {seconds = finite(values[2], -1), count = finite(values[3], -1)})
end
local function file_failure(jid, group, keep, stored)
  local left = 100
  if keep.seconds >= 0 then
    if not (stored and seldom1('has_option', stored, 'K')) then
      try('zadd', prefix .. 'failed-jobs-list', stamp, jid)
    end
    left = left - seldom1('clear_list', keep.seconds)
  end
  if left > 0 then
    seldom1('clear_group', group, keep, math.min(left, 10))
  end
end
local function fail_unasked(jid, queue, group, message, stored, ended)
  local key = prefix .. 'j:' .. jid
  leave_queue(queue, jid)
  if seldom1('has_option', stored, 'g') then
    leave_turns(queue, try('hget', key, 'priority'))
  end
  for _, other in ipairs(try('smembers', key .. '-dependencies')) do
    undepend(jid, other)
  end
  local cap, keep = read_failing()
  mark_exhausted(jid, queue, group, cjson.encode({group = group, message = message, when = (math.floor(now)), worker = ''}), cap)
  try('publish', prefix .. 'log', (cjson.encode({ jid = jid, event = 'failed', worker = '', group = group, message = message, })))
  ended(jid, stored, 'failed')
  if keep then
    file_failure(jid, group, keep, stored)
  end
end
local function cancel_job(jid, job, how, count)
  local key = prefix .. 'j:' .. jid
  local state, queue, failure, worker = job[1], job[2], job[3], job[4]
  if state == 'complete' then
    return
  end
  local message = cjson.encode({jid = jid, worker = worker, event = 'canceled', queue = queue})
  try('publish', prefix .. 'log', message)
  if worker and worker ~= '' then
    try('zrem', prefix .. 'w:' .. worker .. ':jobs', jid)
    try('publish', prefix .. ('w:' .. worker), message)
  end
  if queue then
    do
      local queue, jid = queue, jid
      try('zrem', prefix .. 'q:' .. queue .. '-work', jid)
      try('zrem', prefix .. 'q:' .. queue .. '-locks', jid)
      try('zrem', prefix .. 'q:' .. queue .. '-scheduled', jid)
      try('zrem', prefix .. 'q:' .. queue .. '-depends', jid)
    end
  end
  if state == 'running' and queue then
    do
      local queue = queue
      if try('hexists', prefix .. 'config', queue .. '-max-concurrency') == 1 then
        wake(queue)
      end
    end
  end
  for _, other in ipairs(job.dependencies) do
    try('srem', prefix .. 'j:' .. other .. '-dependents', jid)
  end
  if state == 'failed' then
    do
      local jid, queue, failure, count = jid, queue, failure, count
      local details
      repeat
        local text = failure
        if not text then
          details = {}
          break
        end
        local ok, list = pcall(cjson.decode, text)
        if ok and type(list) == 'table' then
          details = list
          break
        end
        details = {}
      until true
      do
        local jid, failure, count = jid, details, count
        local group = failure.group
        if type(group) == 'string' then
          local key = prefix .. 'f:' .. group
          local length = count and 0 or finite(try('llen', key), 0)
          if length >= 10000 then
            count = count_from(group, failure, length)
          end
          try('lrem', key, count or 0, jid)
          do
            local group = group
            if call('exists', prefix .. 'f:' .. group) == 0 then
              try('srem', prefix .. 'failures', group)
            end
          end
        end
      end
      do
        local queue, failure = queue, details
        local at = finite(failure.when)
        if at and queue then
          do
            local day, queue, field, by = (at - at % 86400), queue, 'failed', -1
            local key = prefix .. 's:stats:' .. string.format('%d', day) .. ':' .. queue
            if try('hincrby', key, field, by) == by then
              do
                local key, day = key, day
                local keep = day + 86400 * (1 + finite(try('hget', prefix .. 'config', 'stats-history'), 30)) - now
                try('expire', key, string.format('%.0f', math.min(math.max(keep, 60), 1e10)))
              end
            end
          end
        end
      end
      do
        local jids = {jid}
        do
          local run, operation, key, list = try, 'zrem', prefix .. 'failed-jobs-list', jids
          for from = 1, #list, 1000 do
            run(operation, key, unpack(list, from, math.min(from + 999, #list)))
          end
        end
      end
    end
  end
  do
    local jid, tags, first = jid, names_of(job[5]), 1
    for i = first, #tags do
      do
        local jid, tag = jid, tags[i]
        if try('zrem', prefix .. 't:' .. tag, jid) == 1 then
          if finite(try('zincrby', prefix .. 'tags', -1, tag), 1) <= 0 then
            call('zrem', prefix .. 'tags', tag)
          end
        end
      end
    end
  end
  call('del', key, key .. '-history', key .. '-dependencies')
  do
    local channel, jid = 'canceled', jid
    if (type(try('zscore', prefix .. 'tracked', jid)) == 'string') then
      try('publish', prefix .. channel, jid)
    end
  end
  if job[6] then
    job_ended(jid, job[6], how or 'canceled')
    if seldom1('has_option', job[6], 'g') and state == 'waiting' and queue then
      leave_turns(queue, job[7])
    end
  end
end
local function fail_expired(jid, job)
  local queue, worker = job[2], job[4] or ''
  if not queue then
    return false
  end
  local group = 'expired-' .. queue
  add_failure(jid, group)
  call('hdel', prefix .. 'j:' .. jid, 'grace')
  fail_unasked(jid, queue, group, 'Its StartBy or TTL is over', job[6], job_ended)
  if worker ~= '' then
    try('zrem', prefix .. 'w:' .. worker .. ':jobs', jid)
    publish('w:' .. worker, cjson.encode({
      jid = jid, worker = worker, event = 'canceled', queue = queue,
    }))
  end
  if job[1] == 'running' then
    wake_for_slot(queue)
  end
  return true
end
local function delete_expired(jid, tags)
  local key = prefix .. 'j:' .. jid
  try('zrem', prefix .. 'completed', jid)
  remove_tags(jid, names_of(tags), 1)
  call('del', key, key .. '-history', key .. '-dependencies')
  note_life(jid)
end
local function expire_job(jid, job)
  local key, state = prefix .. 'j:' .. jid, job[1]
  if try('exists', key .. '-dependents') == 1 then
    if state == 'failed' then
      return false
    end
    return fail_expired(jid, job)
  end
  job.dependencies = try('smembers', key .. '-dependencies')
  cancel_job(jid, job, 'expired')
  return true
end
local function end_life(jid, as)
  local job = try('hmget', prefix .. 'j:' .. jid, 'state', 'queue', 'failure', 'worker', 'tags', 'x:o', 'priority',
    'time')
  local state, stored, since = job[1], job[6] or '', finite(job[8], now)
  if state == 'failed' then
    since = finite(list_of(job[3]).when, now)
  end
  local ends = state and end_of_life(jid, stored, as or state, since)
  if ends and ends <= now then
    if state == 'complete' then
      delete_expired(jid, job[5])
      return true
    elseif expire_job(jid, job) then
      if state ~= 'failed' then
        tally_expired(job[2] or '')
      end
      return true
    end
    ends = now + 60
  elseif state == 'running' and seldom1('has_option', stored, 's') then
    ends = earlier(ends, now + 60)
  end
  note_life(jid, ends)
  return false
end
  local ended = 0
  local due = try('zrangebyscore', prefix .. 'x:until', '-inf', stamp, 'LIMIT', 0, limit)
  for i = 1, #due do
    ended = ended + (end_life(due[i]) and 1 or 0)
  end
  return ended
elseif which == 'settle_rest' then
local function each_slice(run, operation, key, list)
  for from = 1, #list, 1000 do
    run(operation, key, unpack(list, from, math.min(from + 999, #list)))
  end
end
local function split_options(text)
  local letters, body = string.match(text or '', '^(%a+)|(.*)$')
  local ok, values = pcall(cjson.decode, body or '')
  if ok and type(values) == 'table' then
    return letters, values
  end
  return '', {}
end
local function note_filled(queue, known)
  if (known or call('exists', prefix .. 'x:empty') == 1)
    and try('sadd', prefix .. 'x:filled', queue) == 1 then
    call('expire', prefix .. 'x:filled', 1)
  end
end
local function fair_share(text)
  local _, values = split_options(text)
  local share = values.g
  if type(share) == 'table' and type(share.t) == 'string' and share.t ~= '' then
    return share.t, math.min(math.max(finite(share.w, 1), 0.01), 100)
  end
end
local function first_turn(queue, priority)
  local first = try('zrevrangebyscore', prefix .. 'q:' .. queue .. '-work', string.format('%.17g', (priority - 0.5)),
    '(' .. string.format('%.17g', (priority - 1)), 'WITHSCORES', 'LIMIT', 0, 1)
  local score = finite(first[2])
  return score and math.max(priority - 0.5 - score, 0), first.err
end
local function turn_step(priority)
  local _, exponent = math.frexp(math.abs(priority) + 1)
  return 2 ^ (exponent - 45)
end
local function turns_key(queue, priority)
  return prefix .. 'x:fair:' .. string.format('%.17g', priority) .. ':' .. queue
end
local function write_turn(key, tenant, ends, waits, passed)
  try('zadd', key, ends, tenant)
  if not waits then
    if try('zcard', key) ~= 1 then
      try('unlink', key)
      try('zadd', key, ends, tenant)
    end
    try('expire', key, 604800)
  end
  for _, other in ipairs(passed) do
    if other ~= tenant then
      try('zrem', key, other)
    end
  end
end
local function fair_score(queue, priority, stored, known)
  local tenant, weight = fair_share(stored)
  priority = finite(priority, 0)
  if not tenant or math.abs(priority) > 10000 then
    return
  end
  local key = turns_key(queue, priority)
  local first, waits, passed = known[key], true, {}
  if not first then
    local damaged
    first, damaged = first_turn(queue, priority)
    if damaged then
      return
    end
    waits, first = first ~= nil, first or 0
    passed = waits and try('zrangebyscore', key, '-inf', string.format('%.17g', first), 'LIMIT', 0, 2) or {}
    known[key] = first
  end
  local last = waits and finite(try('zscore', key, tenant), 0) or 0
  local turn = math.min(math.max(first, last), 0.49)
  write_turn(key, tenant, string.format('%.17g', (turn + turn_step(priority) / weight)), waits, passed)
  return string.format('%.17g', (priority - 0.5 - turn))
end
local function score_of(queue, priority, stored, turns)
  return stored and seldom1('has_option', stored, 'g') and fair_score(queue, priority, stored, turns) or
    (finite(priority, 0) - now / 10000000000)
end
local function note_missing(name, queue)
  local key = prefix .. 'x:listed:' .. name
  if try('exists', key) == 1 then
    try('hset', key, queue, '1')
  end
end
local function wake(queue)
  local waiting, list, lapses = prefix .. 'x:idle:' .. queue, nil, nil
  local woken = false
  for i = 1, 2 * 100 do
    local from = list and (prefix .. 'x:list:' .. list) or waiting
    local popped = i <= 100 and try('zpopmin', from) or try('zpopmax', from)
    local name = popped[1]
    if name and string.byte(name) == 1 then
      list, lapses = string.sub(name, 2), popped[2]
    elseif name then
      local idle = try('srem', prefix .. 'x:idle', name) == 1
      woken = idle and finite(try('publish', prefix .. ('x:wake:' .. name), queue), 0) > 0
      if woken then
        break
      end
      unheard = unheard + 1
    elseif list then
      note_missing(list, queue)
      list = nil
    else
      break
    end
  end
  if list then
    try('zadd', waiting, lapses, '\1' .. list)
  end
  return woken
end
local function wake_for(queue, delay)
  return delay < 3600 and wake(queue)
end
local function free(jid, released)
  local key = prefix .. 'j:' .. jid
  local job = try('hmget', key, 'queue', 'priority', 'scheduled', 'x:undelayed', 'x:o')
  local queue, due = job[1], released and not job[4] and finite(job[3])
  if not queue then
    return
  end
  local state, place, score = 'scheduled', prefix .. 'q:' .. queue .. '-scheduled', job[3]
  if not due then
    state, place, score = 'waiting', prefix .. 'q:' .. queue .. '-work', score_of(queue, job[2], job[5], {})
  end
  local reply = try('zadd', place, score, jid)
  if type(reply) == 'table' then
    return reply.err
  end
  try('zrem', prefix .. 'q:' .. queue .. '-depends', jid)
  call('hset', key, 'state', state)
  if due then
    call('hdel', key, 'scheduled')
  end
  if job[4] then
    call('hdel', key, 'x:undelayed')
  end
  note_filled(queue)
  wake_for(queue, due and due - now or 0)
end
local function rest_key(jid)
  return prefix .. 'x:rest:' .. jid
end
local function release_some(jid, others, dependents)
  local stuck = {}
  for i = 1, #others do
    local other = others[i]
    local dependencies = prefix .. 'j:' .. other .. '-dependencies'
    local ended = try('srem', dependencies, jid)
    if type(ended) == 'table' then
      stuck[#stuck + 1] = other
    elseif ended == 1 and call('scard', dependencies) == 0 and free(other, true) then
      call('sadd', dependencies, jid)
      stuck[#stuck + 1] = other
    end
  end
  each_slice(call, 'sadd', dependents, stuck)
end
local function of_this_life(others, dependents)
  if try('exists', dependents) == 0 then
    return others
  end
  local found = {}
  for i = 1, #others do
    if try('sismember', dependents, others[i]) == 0 then
      found[#found + 1] = others[i]
    end
  end
  return found
end
local function release_more(jid)
  local dependents = prefix .. 'j:' .. jid .. '-dependents'
  local others = try('spop', rest_key(jid), releasable)
  releasable = releasable - #others
  release_some(jid, of_this_life(others, dependents), dependents)
  if #others == 0 or try('exists', rest_key(jid)) == 0 then
    call('zrem', prefix .. 'x:rest', jid)
  end
  return #others
end
local function forget_untold(jid)
  call('del', rest_key(jid))
  call('zrem', prefix .. 'x:rest', jid)
end
local function tell_more(jid, cursor)
  local before = tellable
  forget_untold(jid)
  if try('hget', prefix .. 'j:' .. jid, 'state') == 'failed' then
    seldom1('tell_all', {jid}, cursor, job_ended)
  end
  return before - tellable
end
  local rest, settled = prefix .. 'x:rest', 0
  releasable = math.min(releasable, 250)
  while releasable > 0 and tellable > 0 do
    local jid = try('zrange', rest, 0, 0)[1]
    if not jid then
      return settled, false
    end
    local cursor = try('get', rest_key(jid))
    local fails = type(cursor) == 'string'
    settled = settled + (fails and tell_more(jid, cursor) or release_more(jid))
  end
  return settled, try('exists', rest) == 1
elseif which == 'untrack_gone' then
local limit = ...
local function each_slice(run, operation, key, list)
  for from = 1, #list, 1000 do
    run(operation, key, unpack(list, from, math.min(from + 999, #list)))
  end
end
  local tracked, sweep = prefix .. 'tracked', prefix .. 'x:sweep'
  local from, gone = finite(try('hget', sweep, 'tracked'), 0), {}
  local jids = try('zrange', tracked, from, from + limit - 1)
  for i = 1, #jids do
    if call('exists', prefix .. 'j:' .. jids[i]) == 0 then
      gone[#gone + 1] = jids[i]
    end
  end
  each_slice(try, 'zrem', tracked, gone)
  if #jids == limit then
    try('hset', sweep, 'tracked', from + limit - #gone)
  elseif from > 0 then
    try('hdel', sweep, 'tracked')
  end
elseif which == 'move_due' then
local queue, lost, recur, scheduled = ...
local function write_first(...)
  local reply = try(...)
  if type(reply) == 'table' and reply.err then
    do
      call('del', prefix .. 'x:none')
    end
    return try(...)
  end
  return reply
end
local function may_write(key)
  return not redis.acl_check_cmd or redis.acl_check_cmd('del', key)
end
local none = {}
local function split_options(text)
  local letters, body = string.match(text or '', '^(%a+)|(.*)$')
  local ok, values = pcall(cjson.decode, body or '')
  if ok and type(values) == 'table' then
    return letters, values
  end
  return '', {}
end
local function own_place(text)
  local _, values = split_options(text)
  return not values.g and (values.q == 'place' or values.q == 'last') and values.q or nil
end
local function publish(channel, message)
  return try('publish', prefix .. channel, message)
end
local function leave_queue(queue, jid)
  try('zrem', prefix .. 'q:' .. queue .. '-work', jid)
  try('zrem', prefix .. 'q:' .. queue .. '-locks', jid)
  try('zrem', prefix .. 'q:' .. queue .. '-scheduled', jid)
  try('zrem', prefix .. 'q:' .. queue .. '-depends', jid)
end
local function note_filled(queue, known)
  if (known or call('exists', prefix .. 'x:empty') == 1)
    and try('sadd', prefix .. 'x:filled', queue) == 1 then
    call('expire', prefix .. 'x:filled', 1)
  end
end
local function fair_share(text)
  local _, values = split_options(text)
  local share = values.g
  if type(share) == 'table' and type(share.t) == 'string' and share.t ~= '' then
    return share.t, math.min(math.max(finite(share.w, 1), 0.01), 100)
  end
end
local function first_turn(queue, priority)
  local first = try('zrevrangebyscore', prefix .. 'q:' .. queue .. '-work', string.format('%.17g', (priority - 0.5)),
    '(' .. string.format('%.17g', (priority - 1)), 'WITHSCORES', 'LIMIT', 0, 1)
  local score = finite(first[2])
  return score and math.max(priority - 0.5 - score, 0), first.err
end
local function turn_step(priority)
  local _, exponent = math.frexp(math.abs(priority) + 1)
  return 2 ^ (exponent - 45)
end
local function turns_key(queue, priority)
  return prefix .. 'x:fair:' .. string.format('%.17g', priority) .. ':' .. queue
end
local function write_turn(key, tenant, ends, waits, passed)
  try('zadd', key, ends, tenant)
  if not waits then
    if try('zcard', key) ~= 1 then
      try('unlink', key)
      try('zadd', key, ends, tenant)
    end
    try('expire', key, 604800)
  end
  for _, other in ipairs(passed) do
    if other ~= tenant then
      try('zrem', key, other)
    end
  end
end
local function fair_score(queue, priority, stored, known)
  local tenant, weight = fair_share(stored)
  priority = finite(priority, 0)
  if not tenant or math.abs(priority) > 10000 then
    return
  end
  local key = turns_key(queue, priority)
  local first, waits, passed = known[key], true, {}
  if not first then
    local damaged
    first, damaged = first_turn(queue, priority)
    if damaged then
      return
    end
    waits, first = first ~= nil, first or 0
    passed = waits and try('zrangebyscore', key, '-inf', string.format('%.17g', first), 'LIMIT', 0, 2) or {}
    known[key] = first
  end
  local last = waits and finite(try('zscore', key, tenant), 0) or 0
  local turn = math.min(math.max(first, last), 0.49)
  write_turn(key, tenant, string.format('%.17g', (turn + turn_step(priority) / weight)), waits, passed)
  return string.format('%.17g', (priority - 0.5 - turn))
end
local function leave_turns(queue, priority)
  priority = finite(priority, 0)
  local first, damaged = first_turn(queue, priority)
  local key = turns_key(queue, priority)
  if first then
    try('expire', key, 604800)
  elseif not damaged then
    try('unlink', key)
  end
end
local function score_of(queue, priority, stored, turns)
  return stored and seldom1('has_option', stored, 'g') and fair_score(queue, priority, stored, turns) or
    (finite(priority, 0) - now / 10000000000)
end
local function list_of(text)
  if not text then
    return {}
  end
  local ok, list = pcall(cjson.decode, text)
  if ok and type(list) == 'table' then
    return list
  end
  return {}
end
local function names_of(text)
  local found = {}
  for _, name in ipairs(list_of(text)) do
    if type(name) == 'string' or type(name) == 'number' then
      found[#found + 1] = tostring(name)
    end
  end
  return found
end
local function entry(at, what, details)
  return '[' .. string.format('%d', at) .. ',' .. what .. (details and ',' .. details or '') .. ']'
end
local function trim_history(key, length, cap)
  cap = cap or finite((try('hget', prefix .. 'config', 'max-job-history')), 100)
  if cap > 0 and length > cap then
    local first = call('lindex', key, 0)
    call('ltrim', key, -math.max(cap - 1, 1), -1)
    call('lpush', key, first)
  end
end
local function move_stage(key, stage)
  local popped, failed, done = finite(stage.popped), finite(stage.failed), finite(stage.done)
  local queue = cjson.encode({q = (type(stage.q) == 'string' and stage.q or nil)})
  try('rpush', key, ('[' .. string.format('%d', (finite(stage.put, 0))) .. ',"put"' .. (queue and ',' .. queue or '') .. ']'))
  if popped then
    local worker = cjson.encode({worker = (type(stage.worker) == 'string' and stage.worker or nil)})
    try('rpush', key, ('[' .. string.format('%d', popped) .. ',"popped"' .. (worker and ',' .. worker or '') .. ']'))
  end
  if failed then
    try('rpush', key, entry(failed, '"failed"'))
  end
  if done then
    try('rpush', key, entry(done, '"done"'))
  end
end
local function move_history(jid, text)
  local key = prefix .. 'j:' .. jid .. '-history'
  if not may_write(key) then
    return
  end
  call('hdel', prefix .. 'j:' .. jid, 'history')
  for _, stage in ipairs(list_of(text)) do
    if type(stage) == 'table' then
      move_stage(key, stage)
    end
  end
end
local function note_missing(name, queue)
  local key = prefix .. 'x:listed:' .. name
  if try('exists', key) == 1 then
    try('hset', key, queue, '1')
  end
end
local function wake(queue)
  local waiting, list, lapses = prefix .. 'x:idle:' .. queue, nil, nil
  local woken = false
  for i = 1, 2 * 100 do
    local from = list and (prefix .. 'x:list:' .. list) or waiting
    local popped = i <= 100 and try('zpopmin', from) or try('zpopmax', from)
    local name = popped[1]
    if name and string.byte(name) == 1 then
      list, lapses = string.sub(name, 2), popped[2]
    elseif name then
      local idle = try('srem', prefix .. 'x:idle', name) == 1
      woken = idle and finite(try('publish', prefix .. ('x:wake:' .. name), queue), 0) > 0
      if woken then
        break
      end
      unheard = unheard + 1
    elseif list then
      note_missing(list, queue)
      list = nil
    else
      break
    end
  end
  if list then
    try('zadd', waiting, lapses, '\1' .. list)
  end
  return woken
end
local function wake_for(queue, delay)
  return delay < 3600 and wake(queue)
end
local function wake_for_slot(queue)
  if try('hexists', prefix .. 'config', queue .. '-max-concurrency') == 1 then
    wake(queue)
  end
end
local function is_claimed(queue, due, worker)
  local held = try('get', prefix .. 'x:due:' .. queue)
  if type(held) ~= 'string' then
    return false
  end
  local until_then, holder = string.match(held, '^(%S+) (.*)$')
  local at = tonumber(until_then)
  return at and holder ~= worker and at > now and at <= due and
    try('sismember', prefix .. 'x:idle', holder) == 1
end
local function limit_key(name, part)
  return prefix .. 'x:limit:' .. name .. ':' .. part
end
local function limits_of(text)
  local _, values = split_options(text)
  local found, seen = {}, {}
  for _, name in ipairs(type(values.c) == 'table' and values.c or none) do
    if type(name) == 'string' and not seen[name] and #found < 8 then
      seen[name], found[#found + 1] = true, name
    end
  end
  return found
end
local function parse_limit(text)
  local max, rate, per = string.match(text or '', '^(%d+) (%d+) (%S+)$')
  max, rate, per = finite(max, 0), finite(rate, 0), finite(per, 0)
  return max, per > 0 and rate or 0, per
end
local function read_limit(name, most)
  local family = string.match(name, '^([^/]+)/.') or name
  local stored = try('hmget', prefix .. 'x:limits', name, name .. ' hold', family)
  local max, rate, per = parse_limit(stored[1] or stored[3])
  local hold = finite(stored[2], 0)
  local limit = {
    name = name, max = max, rate = rate, per = per, hold = hold > now and hold,
    passed = stored[2] and hold <= now, most = most, list = limit_key(name, 'starts'),
    room = math.huge, started = 0, noted = 0, held = {},
  }
  if max > 0 then
    limit.room = max - finite(try('zcard', limit_key(name, 'held')), 0)
  end
  return limit
end
local function noted_time(text)
  local time = finite(text)
  return time and time <= now + 1 and time or nil
end
local function rate_opens(limit)
  local place = limit.rate - limit.started - 1
  if place < 0 then
    return now + limit.per
  elseif not limit.from or place < limit.from then
    limit.from = math.max(place - limit.most + 1, 0)
    limit.times = try('lrange', limit.list, limit.from, place)
  end
  local time = noted_time(limit.times[place - limit.from + 1])
  local opens = time and time + limit.per
  return opens and opens > now and opens or nil
end
local function slot_end(ends)
  return string.format('%.0f', math.ceil(ends))
end
local function slot_ends(jid)
  local job = try('hmget', prefix .. 'j:' .. jid, 'state', 'queue', 'grace', 'x:o')
  if job[1] ~= 'running' or not job[2] then
    return
  end
  local ends = finite(try('zscore', prefix .. 'q:' .. job[2] .. '-locks', jid))
  if not ends or ends > now or tonumber(job[3]) == 1 or seldom1('has_option', job[4] or '', 'l') then
    return ends
  end
  return ends + finite(try('hget', prefix .. 'config', 'grace-period'), 10)
end
local function heal_limit(limit)
  local held = limit_key(limit.name, 'held')
  limit.healed = true
  local ended = try('zrangebyscore', held, '-inf', stamp, 'LIMIT', 0, 20)
  for i = 1, #ended do
    local ends = slot_ends(ended[i])
    if ends and ends > now then
      try('zadd', held, slot_end(ends), ended[i])
    elseif try('zrem', held, ended[i]) == 1 then
      limit.room = limit.room + 1
    end
  end
end
local function limit_opens(limit, jid)
  local opens = limit.hold or limit.rate > 0 and rate_opens(limit)
  if opens then
    return opens
  elseif limit.room <= 0 and not limit.healed then
    heal_limit(limit)
  end
  if limit.room > 0 then
    return
  end
  local held = limit_key(limit.name, 'held')
  if jid and type(try('zscore', held, jid)) == 'string' then
    return
  end
  limit.ends = limit.ends or finite(try('zrange', held, 0, 0, 'WITHSCORES')[2], now)
  return math.max(limit.ends, now + 1)
end
local function parked_by(state, time, parked)
  local since, name = string.match(type(parked) == 'string' and parked or '', '^(%S*) (.+)$')
  return state == 'scheduled' and since == (time or '') and name or nil
end
local function parked_in(jid, name)
  local job = try('hmget', prefix .. 'j:' .. jid, 'state', 'queue', 'time', 'x:parked')
  return parked_by(job[1], job[3], job[4]) == name and job[2] or nil
end
local function unpark(jid, queue, score)
  local work = prefix .. 'q:' .. queue .. '-work'
  if type(try('zcard', work)) == 'table' or try('zrem', prefix .. 'q:' .. queue .. '-scheduled', jid) ~= 1 then
    return false
  end
  call('zadd', work, score, jid)
  call('hset', prefix .. 'j:' .. jid, 'state', 'waiting')
  call('hdel', prefix .. 'j:' .. jid, 'x:parked')
  note_filled(queue)
  wake(queue)
  return true
end
local function arm(jid, queue, at, paused)
  local scheduled = prefix .. 'q:' .. queue .. '-scheduled'
  local due = finite(try('zscore', scheduled, jid))
  if due and due > at then
    try('zadd', scheduled, string.format('%.17g', at), jid)
    if not paused and not is_claimed(queue, at, '') then
      wake_for(queue, at - now)
    end
  end
end
local function return_parked(limit)
  local wait, returned, passed = limit_key(limit.name, 'wait'), 0, 0
  for _ = 1, 100 do
    local best = try('zrevrange', wait, passed, passed, 'WITHSCORES')
    local jid, score = best[1], best[2]
    if not jid then
      return returned
    end
    local queue = parked_in(jid, limit.name)
    local opens = queue and limit_opens(limit)
    if queue and try('sismember', prefix .. 'paused_queues', queue) == 1 then
      passed = passed + 1
      arm(jid, queue, opens or now, true)
    else
      if opens then
        arm(jid, queue, opens)
        return returned
      end
      try('zrem', wait, jid)
      if queue and unpark(jid, queue, score) then
        limit.started, limit.room = limit.started + 1, limit.room - 1
        returned = returned + 1
      end
    end
  end
  return returned
end
local function limit_freed(name)
  if try('exists', limit_key(name, 'wait')) == 1 then
    return_parked(read_limit(name, 1))
  end
end
local function free_slots(names_in_order, jids)
  for _, name in ipairs(names_in_order) do
    local freed = try('zrem', limit_key(name, 'held'), unpack(jids[name]))
    if type(freed) == 'number' and freed > 0 then
      limit_freed(name)
    end
  end
end
local function stop_limited(jid, stored)
  if not stored or not seldom1('has_option', stored, 'c') then
    return
  end
  local found, jids = limits_of(stored), {}
  for i = 1, #found do
    jids[found[i]] = {jid}
  end
  free_slots(found, jids)
end
local function score_before(jid)
  local key = prefix .. 'j:' .. jid
  local job = try('hmget', key, 'time', 'x:parked')
  local time, name = string.match(job[2] or '', '^(%S*) (.+)$')
  if not name then
    return
  end
  local wait = limit_key(name, 'wait')
  local score = time == (job[1] or '') and try('zscore', wait, jid)
  try('zrem', wait, jid)
  try('hdel', key, 'x:parked')
  return type(score) == 'string' and score or nil, name
end
local function add_tag(jid, tag)
  if try('zadd', prefix .. 't:' .. tag, stamp, jid) == 1 then
    try('zincrby', prefix .. 'tags', 1, tag)
  end
end
local function add_tags(jid, tags, first)
  for i = first, #tags do
    add_tag(jid, tags[i])
  end
end
local function remove_tags(jid, tags, first)
  for i = first, #tags do
    do
      local jid, tag = jid, tags[i]
      if try('zrem', prefix .. 't:' .. tag, jid) == 1 then
        if finite(try('zincrby', prefix .. 'tags', -1, tag), 1) <= 0 then
          call('zrem', prefix .. 'tags', tag)
        end
      end
    end
  end
end
local function next_child(parent, count)
  local taken = 0
  repeat
    count = count + math.max(1, 2 ^ math.floor(taken / 100 - 1))
    local child = parent .. '-' .. string.format('%.0f', count)
    taken = taken + 1
  until call('exists', prefix .. 'j:' .. child) == 0
  return count
end
local function spawn_due(queue, parent, due, limit)
  local fields = try('hmget', prefix .. 'r:' .. parent,
    'klass', 'data', 'priority', 'tags', 'retries', 'interval', 'backlog', 'count')
  local job = {
    klass = fields[1], data = fields[2] or '{}', priority = fields[3] or '0',
    tags = fields[4] or '[]', retries = fields[5] or '0',
  }
  local interval = finite(fields[6], 0)
  if not job.klass or interval <= 0 then
    call('zrem', prefix .. 'q:' .. queue .. '-recur', parent)
    return 0
  end
  local at = interval % 1 == 0 and math.floor(due) or due
  local backlog = finite(fields[7], 0)
  local missed = (now - at) / interval
  if backlog ~= 0 and missed > backlog then
    at = at + math.ceil(missed - backlog) * interval
  end
  local count, spawned = finite(fields[8], 0), 0
  while at <= now and spawned < limit do
    count = next_child(parent, count)
    do
      local queue, parent, child, job, at = queue, parent, parent .. '-' .. string.format('%.0f', count), job, at
      call('hset', prefix .. 'j:' .. child,
        'jid', child,
        'klass', job.klass,
        'data', job.data,
        'priority', job.priority,
        'tags', job.tags,
        'state', 'waiting',
        'worker', '',
        'expires', 0,
        'queue', queue,
        'retries', job.retries,
        'remaining', job.retries,
        'time', string.format('%.17g', at),
        'spawned_from_jid', parent)
      call('zadd', prefix .. 'q:' .. queue .. '-work', (finite(job.priority, 0) - at / 10000000000), child)
      add_tags(child, names_of(job.tags), 1)
      do
        local key, text, cap = prefix .. 'j:' .. child, entry(at, '"put"', cjson.encode({q = queue}))
        local length = try('rpush', key .. '-history', text)
        if length ~= 1 and length ~= 2 and type(length) == 'number' and (not cap or length > cap) then
          trim_history(key .. '-history', length, cap)
        end
      end
    end
    at = at + interval
    spawned = spawned + 1
  end
  if spawned > 0 then
    call('hset', prefix .. 'r:' .. parent, 'count', string.format('%.0f', count))
    call('zadd', prefix .. 'q:' .. queue .. '-recur', string.format('%.17g', at), parent)
    do
      local event = {event = 'spawned', queue = queue, jid = parent, count = spawned}
      try('publish', prefix .. 'x:log', (cjson.encode(event)))
    end
  end
  return spawned
end
local function spawn_all(queue, limit)
  local due = call('zrangebyscore', prefix .. 'q:' .. queue .. '-recur', 0, stamp,
    'WITHSCORES', 'LIMIT', 0, limit)
  for i = 1, #due, 2 do
    limit = limit - spawn_due(queue, due[i], tonumber(due[i + 1]), limit)
    if limit <= 0 then
      return
    end
  end
end
local function due_score(scheduled, jid, priority, n)
  local at = finite(try('zscore', scheduled, jid), now)
  call('hset', prefix .. 'j:' .. jid, 'time', string.format('%.17g', at))
  return (finite(priority, 0) - (at + (n - 1) * 0.000001) / 10000000000)
end
local function move_scheduled(queue, limit)
  local scheduled = prefix .. 'q:' .. queue .. '-scheduled'
  local due = call('zrangebyscore', scheduled, 0, stamp, 'LIMIT', 0, limit)
  local work, turns = {}, {}
  for n, jid in ipairs(due) do
    local priority, stored
    repeat
      local jid = jid
      local job = try('hmget', prefix .. 'j:' .. jid, 'priority', 'x:o')
      if job[1] then
        priority, stored = job[1], job[2]
        break
      end
      priority, stored = not job.err and call('exists', prefix .. 'j:' .. jid) == 1 and '0', job[2]
    until true
    if priority then
      call('hset', prefix .. 'j:' .. jid, 'state', 'waiting')
      work[#work + 1] = stored and string.find(stored, '^%a*c') and score_before(jid)
        or stored and string.find(stored, '^%a*q') and own_place(stored)
          and due_score(scheduled, jid, priority, n)
        or stored and score_of(queue, priority, stored, turns) or (finite(priority, 0) - now / 10000000000)
      work[#work + 1] = jid
    end
  end
  do
    local run, operation, key, list = call, 'zrem', scheduled, due
    for from = 1, #list, 1000 do
      run(operation, key, unpack(list, from, math.min(from + 999, #list)))
    end
  end
  do
    local run, operation, key, list = call, 'zadd', prefix .. 'q:' .. queue .. '-work', work
    for from = 1, #list, 1000 do
      run(operation, key, unpack(list, from, math.min(from + 999, #list)))
    end
  end
end
local function bring_due(queue, recur, scheduled, limit)
  local work = prefix .. 'q:' .. queue .. '-work'
  if limit <= 0 or not may_write(work) then
    return
  end
  call('zrem', work, '')
  if recur then
    spawn_all(queue, limit)
  end
  if scheduled then
    move_scheduled(queue, limit)
  end
end
local function earlier(a, b)
  return a and b and math.min(a, b) or a or b
end
local function end_in_state(values, state, since)
  local gone, complete, failed = finite(values.t), finite(values.k), finite(values.K)
  if state == 'complete' then
    return earlier(gone, complete and since + complete)
  elseif state == 'failed' and failed then
    return failed >= 0 and since + failed or nil
  elseif state ~= 'failed' and state ~= 'running' then
    return earlier(gone, finite(values.s))
  end
  return gone
end
local function is_last_put(jid, at)
  local entries = try('lrange', prefix .. 'j:' .. jid .. '-history', 0, -1)
  for i = #entries, 1, -1 do
    local when = string.match(entries[i], '^%[(%-?%d+)[%d.]*,"put"')
    if when then
      return tonumber(when) <= finite(at, 0)
    end
  end
  return true
end
local function end_of_life(jid, stored, state, since)
  local _, values = split_options(stored)
  local ends = end_in_state(values, state, since)
  if ends and ends <= now and (values.s or values.t) and not is_last_put(jid, values.put) then
    values.s, values.t = nil, nil
    ends = end_in_state(values, state, since)
  end
  return ends
end
local function is_over(jid, stored, state)
  return (string.find(stored, '^%a*[stkK]') ~= nil) and (end_of_life(jid, stored, state, now) or math.huge) <= now
end
local function note_life(jid, ends)
  if ends then
    try('zadd', prefix .. 'x:until', string.format('%.17g', ends), jid)
  else
    try('zrem', prefix .. 'x:until', jid)
  end
end
local function undepend(jid, other)
  try('srem', prefix .. 'j:' .. other .. '-dependents', jid)
  try('srem', prefix .. 'j:' .. jid .. '-dependencies', other)
end
local function expire_stats(key, day)
  local keep = day + 86400 * (1 + finite(try('hget', prefix .. 'config', 'stats-history'), 30)) - now
  try('expire', key, string.format('%.0f', math.min(math.max(keep, 60), 1e10)))
end
local function tally_expired(queue)
  local day = (now - now % 86400)
  local key = prefix .. 'x:stats:' .. string.format('%d', day) .. ':' .. queue
  if try('hincrby', key, 'expired', 1) == 1 then
    expire_stats(key, day)
  end
end
local function add_failure(jid, group)
  local reply = write_first('lpush', prefix .. 'f:' .. group, jid)
  if type(reply) == 'table' then
    return reply.err
  end
  try('sadd', prefix .. 'failures', group)
end
local function count_from(group, failure, length)
  local jid = try('lindex', prefix .. 'f:' .. group, math.floor(length / 2))
  local middle = type(jid) == 'string' and list_of(try('hget', prefix .. 'j:' .. jid, 'failure')) or {}
  return finite(failure.when, 0) < finite(middle.when, 0) and -1 or 1
end
local function mark_exhausted(jid, queue, group, failure, cap)
  do
    local key, text, cap = prefix .. 'j:' .. jid, entry(now, '"failed"', cjson.encode({group = group})), cap
    local length = try('rpush', key .. '-history', text)
    if length ~= 1 and length ~= 2 and type(length) == 'number' and (not cap or length > cap) then
      trim_history(key .. '-history', length, cap)
    end
  end
  call('hset', prefix .. 'j:' .. jid, 'state', 'failed', 'worker', '', 'expires', '', 'failure', failure)
  do
    local queue = queue
    do
      local day, queue, field, by = (now - now % 86400), queue, 'failures', 1
      local key = prefix .. 's:stats:' .. string.format('%d', day) .. ':' .. queue
      if try('hincrby', key, field, by) == by then
        do
          local key, day = key, day
          local keep = day + 86400 * (1 + finite(try('hget', prefix .. 'config', 'stats-history'), 30)) - now
          try('expire', key, string.format('%.0f', math.min(math.max(keep, 60), 1e10)))
        end
      end
    end
    do
      local day, queue, field, by = (now - now % 86400), queue, 'failed', 1
      local key = prefix .. 's:stats:' .. string.format('%d', day) .. ':' .. queue
      if try('hincrby', key, field, by) == by then
        do
          local key, day = key, day
          local keep = day + 86400 * (1 + finite(try('hget', prefix .. 'config', 'stats-history'), 30)) - now
          try('expire', key, string.format('%.0f', math.min(math.max(keep, 60), 1e10)))
        end
      end
    end
  end
  do
    local channel, jid = 'failed', jid
    if (type(try('zscore', prefix .. 'tracked', jid)) == 'string') then
      try('publish', prefix .. channel, jid)
    end
  end
end
local function read_failing()
  local values = try('hmget', prefix .. 'config', 'max-job-history', 'jobs-failed-history',
    'jobs-failed-history-count')
  return finite(values[1], 100), ((values[2] or values[3]) and {seconds = finite(values[2], -1), count = finite(values[3], -1)})
end
local function file_failure(jid, group, keep, stored)
  local left = 100
  if keep.seconds >= 0 then
    if not (stored and seldom1('has_option', stored, 'K')) then
      try('zadd', prefix .. 'failed-jobs-list', stamp, jid)
    end
    left = left - seldom1('clear_list', keep.seconds)
  end
  if left > 0 then
    seldom1('clear_group', group, keep, math.min(left, 10))
  end
end
local function fail_unasked(jid, queue, group, message, stored, ended)
  local key = prefix .. 'j:' .. jid
  leave_queue(queue, jid)
  if seldom1('has_option', stored, 'g') then
    leave_turns(queue, try('hget', key, 'priority'))
  end
  for _, other in ipairs(try('smembers', key .. '-dependencies')) do
    undepend(jid, other)
  end
  local cap, keep = read_failing()
  mark_exhausted(jid, queue, group, cjson.encode({group = group, message = message, when = (math.floor(now)), worker = ''}), cap)
  try('publish', prefix .. 'log', (cjson.encode({ jid = jid, event = 'failed', worker = '', group = group, message = message, })))
  ended(jid, stored, 'failed')
  if keep then
    file_failure(jid, group, keep, stored)
  end
end
local function cancel_job(jid, job, how, count)
  local key = prefix .. 'j:' .. jid
  local state, queue, failure, worker = job[1], job[2], job[3], job[4]
  if state == 'complete' then
    return
  end
  local message = cjson.encode({jid = jid, worker = worker, event = 'canceled', queue = queue})
  try('publish', prefix .. 'log', message)
  if worker and worker ~= '' then
    try('zrem', prefix .. 'w:' .. worker .. ':jobs', jid)
    try('publish', prefix .. ('w:' .. worker), message)
  end
  if queue then
    do
      local queue, jid = queue, jid
      try('zrem', prefix .. 'q:' .. queue .. '-work', jid)
      try('zrem', prefix .. 'q:' .. queue .. '-locks', jid)
      try('zrem', prefix .. 'q:' .. queue .. '-scheduled', jid)
      try('zrem', prefix .. 'q:' .. queue .. '-depends', jid)
    end
  end
  if state == 'running' and queue then
    do
      local queue = queue
      if try('hexists', prefix .. 'config', queue .. '-max-concurrency') == 1 then
        wake(queue)
      end
    end
  end
  for _, other in ipairs(job.dependencies) do
    try('srem', prefix .. 'j:' .. other .. '-dependents', jid)
  end
  if state == 'failed' then
    do
      local jid, queue, failure, count = jid, queue, failure, count
      local details
      repeat
        local text = failure
        if not text then
          details = {}
          break
        end
        local ok, list = pcall(cjson.decode, text)
        if ok and type(list) == 'table' then
          details = list
          break
        end
        details = {}
      until true
      do
        local jid, failure, count = jid, details, count
        local group = failure.group
        if type(group) == 'string' then
          local key = prefix .. 'f:' .. group
          local length = count and 0 or finite(try('llen', key), 0)
          if length >= 10000 then
            count = count_from(group, failure, length)
          end
          try('lrem', key, count or 0, jid)
          do
            local group = group
            if call('exists', prefix .. 'f:' .. group) == 0 then
              try('srem', prefix .. 'failures', group)
            end
          end
        end
      end
      do
        local queue, failure = queue, details
        local at = finite(failure.when)
        if at and queue then
          do
            local day, queue, field, by = (at - at % 86400), queue, 'failed', -1
            local key = prefix .. 's:stats:' .. string.format('%d', day) .. ':' .. queue
            if try('hincrby', key, field, by) == by then
              do
                local key, day = key, day
                local keep = day + 86400 * (1 + finite(try('hget', prefix .. 'config', 'stats-history'), 30)) - now
                try('expire', key, string.format('%.0f', math.min(math.max(keep, 60), 1e10)))
              end
            end
          end
        end
      end
      do
        local jids = {jid}
        do
          local run, operation, key, list = try, 'zrem', prefix .. 'failed-jobs-list', jids
          for from = 1, #list, 1000 do
            run(operation, key, unpack(list, from, math.min(from + 999, #list)))
          end
        end
      end
    end
  end
  do
    local jid, tags, first = jid, names_of(job[5]), 1
    for i = first, #tags do
      do
        local jid, tag = jid, tags[i]
        if try('zrem', prefix .. 't:' .. tag, jid) == 1 then
          if finite(try('zincrby', prefix .. 'tags', -1, tag), 1) <= 0 then
            call('zrem', prefix .. 'tags', tag)
          end
        end
      end
    end
  end
  call('del', key, key .. '-history', key .. '-dependencies')
  do
    local channel, jid = 'canceled', jid
    if (type(try('zscore', prefix .. 'tracked', jid)) == 'string') then
      try('publish', prefix .. channel, jid)
    end
  end
  if job[6] then
    job_ended(jid, job[6], how or 'canceled')
    if seldom1('has_option', job[6], 'g') and state == 'waiting' and queue then
      leave_turns(queue, job[7])
    end
  end
end
local function fail_expired(jid, job)
  local queue, worker = job[2], job[4] or ''
  if not queue then
    return false
  end
  local group = 'expired-' .. queue
  add_failure(jid, group)
  call('hdel', prefix .. 'j:' .. jid, 'grace')
  fail_unasked(jid, queue, group, 'Its StartBy or TTL is over', job[6], job_ended)
  if worker ~= '' then
    try('zrem', prefix .. 'w:' .. worker .. ':jobs', jid)
    publish('w:' .. worker, cjson.encode({
      jid = jid, worker = worker, event = 'canceled', queue = queue,
    }))
  end
  if job[1] == 'running' then
    wake_for_slot(queue)
  end
  return true
end
local function delete_expired(jid, tags)
  local key = prefix .. 'j:' .. jid
  try('zrem', prefix .. 'completed', jid)
  remove_tags(jid, names_of(tags), 1)
  call('del', key, key .. '-history', key .. '-dependencies')
  note_life(jid)
end
local function expire_job(jid, job)
  local key, state = prefix .. 'j:' .. jid, job[1]
  if try('exists', key .. '-dependents') == 1 then
    if state == 'failed' then
      return false
    end
    return fail_expired(jid, job)
  end
  job.dependencies = try('smembers', key .. '-dependencies')
  cancel_job(jid, job, 'expired')
  return true
end
local function end_life(jid, as)
  local job = try('hmget', prefix .. 'j:' .. jid, 'state', 'queue', 'failure', 'worker', 'tags', 'x:o', 'priority',
    'time')
  local state, stored, since = job[1], job[6] or '', finite(job[8], now)
  if state == 'failed' then
    since = finite(list_of(job[3]).when, now)
  end
  local ends = state and end_of_life(jid, stored, as or state, since)
  if ends and ends <= now then
    if state == 'complete' then
      delete_expired(jid, job[5])
      return true
    elseif expire_job(jid, job) then
      if state ~= 'failed' then
        tally_expired(job[2] or '')
      end
      return true
    end
    ends = now + 60
  elseif state == 'running' and seldom1('has_option', stored, 's') then
    ends = earlier(ends, now + 60)
  end
  note_life(jid, ends)
  return false
end
local function read_lost_settings(cap)
  local values = call('hmget', prefix .. 'config', 'grace-period', 'jobs-failed-history',
    'backoff-initial-delay', 'backoff-factor', 'jobs-failed-history-count')
  return {
    cap = cap,
    grace = finite(values[1], 10),
    keep_failed = ((values[2] or values[5]) and {seconds = finite(values[2], -1), count = finite(values[5], -1)}),
    initial_delay = values[3],
    factor = values[4],
  }
end
local function drop_expired(jid, state)
  if not end_life(jid, state) then
    return false
  end
  dropped = dropped + 1
  return true
end
local function fail_lost(queue, jid, worker, own_queue, stored, settings)
  leave_queue(queue, jid)
  local group = 'failed-retries-' .. (own_queue or queue)
  local message = 'Job exhausted retries in queue "' .. queue .. '"'
  add_failure(jid, group)
  mark_exhausted(jid, queue, group, cjson.encode({group = group, message = message, when = now, worker = ''}), settings.cap)
  try('publish', prefix .. 'log', (cjson.encode({ jid = jid, event = 'failed', group = group, worker = worker, message = message, })))
  if stored then
    job_ended(jid, stored, 'failed')
  end
  if settings.keep_failed then
    file_failure(jid, group, settings.keep_failed, stored)
  end
end
local function backoff_delay(text, retries, remaining, settings)
  local own = list_of(text)
  local initial = finite(own.initial_delay, finite(settings.initial_delay,
    0))
  if initial == 0 then
    return nil
  end
  local factor = finite(own.factor, finite(settings.factor, 3))
  return finite(initial * factor ^ (finite(retries, remaining) - remaining))
end
local function put_off(queue, jid, delay)
  try('zrem', prefix .. 'q:' .. queue .. '-work', jid)
  call('zadd', prefix .. 'q:' .. queue .. '-scheduled', string.format('%.17g', (now + delay)), jid)
  call('zrem', prefix .. 'q:' .. queue .. '-locks', jid)
  call('hset', prefix .. 'j:' .. jid, 'state', 'scheduled')
  wake_for(queue, delay)
end
local function put_back(queue, jid, stored)
  local _, values = split_options(stored)
  if values.q ~= 'last' and values.q ~= 'place' then
    return false
  end
  local job, at = try('hmget', prefix .. 'j:' .. jid, 'priority', 'x:place'), now + made_last * 0.000001
  local turn = values.g and fair_score(queue, job[1], stored, {})
  if values.q == 'place' and not turn then
    at = finite(job[2], now)
  else
    made_last = made_last + 1
  end
  call('zadd', prefix .. 'q:' .. queue .. '-work', turn or (finite(job[1], 0) - at / 10000000000), jid)
  call('zrem', prefix .. 'q:' .. queue .. '-locks', jid)
  call('hset', prefix .. 'j:' .. jid, 'state', 'waiting', 'worker', '', 'expires', '0', 'time', string.format('%.17g', at))
  wake_for(queue, 0)
  return true
end
local function expire_lock(queue, jid, settings)
  local job = try('hmget', prefix .. 'j:' .. jid, 'worker', 'grace', 'remaining', 'history', 'queue',
    'state', 'backoff', 'retries', 'x:o')
  local worker, warned, grace = job[1] or '', tonumber(job[2]) == 1, settings.grace
  if not job[1] and not job[6] then
    call('zrem', prefix .. 'q:' .. queue .. '-locks', jid)
    return nil
  end
  do
    local jid, text = jid, job[4]
    if text then
      move_history(jid, text)
    end
  end
  if job[9] and is_over(jid, job[9], 'running') and drop_expired(jid, 'running') then
    return nil
  end
  try('zrem', prefix .. 'w:' .. worker .. ':jobs', jid)
  local sudden = grace <= 0 or (job[2] == '1.0' or not job[2] and job[9] and seldom1('has_option', job[9], 'l'))
  if sudden or not warned then
    do
      local queue, jid, worker, grace, cap = queue, jid, worker, grace, settings.cap
      do
        local channel, jid = 'stalled', jid
        if (type(try('zscore', prefix .. 'tracked', jid)) == 'string') then
          try('publish', prefix .. channel, jid)
        end
      end
      do
        local key, text, cap = prefix .. 'j:' .. jid, entry(now, '"timed-out"'), cap
        local length = try('rpush', key .. '-history', text)
        if length ~= 1 and length ~= 2 and type(length) == 'number' and (not cap or length > cap) then
          trim_history(key .. '-history', length, cap)
        end
      end
      call('hset', prefix .. 'j:' .. jid, 'grace', 1)
      do
        local jid, worker = jid, worker
        local message = cjson.encode({jid = jid, event = 'lock_lost', worker = worker})
        try('publish', prefix .. ('w:' .. worker), message)
        try('publish', prefix .. 'log', message)
      end
      call('zadd', prefix .. 'q:' .. queue .. '-locks', string.format('%.17g', (now + grace)), jid)
      do
        local day, queue, field, by = (now - now % 86400), queue, 'retries', 1
        local key = prefix .. 's:stats:' .. string.format('%d', day) .. ':' .. queue
        if try('hincrby', key, field, by) == by then
          do
            local key, day = key, day
            local keep = day + 86400 * (1 + finite(try('hget', prefix .. 'config', 'stats-history'), 30)) - now
            try('expire', key, string.format('%.0f', math.min(math.max(keep, 60), 1e10)))
          end
        end
      end
    end
  end
  if sudden or warned then
    do
      local queue, jid, job, worker, settings = queue, jid, job, worker, settings
      local remaining = math.floor(finite(job[3], 0)) - 1
      call('hset', prefix .. 'j:' .. jid, 'remaining', remaining)
      call('hdel', prefix .. 'j:' .. jid, 'grace')
      if remaining < 0 then
        fail_lost(queue, jid, worker, job[5], job[9], settings)
        return nil
      end
      if job[9] and is_over(jid, job[9], 'waiting') and drop_expired(jid, 'waiting') then
        return nil
      end
      local delay
      if job[7] or settings.initial_delay then
        delay = backoff_delay(job[7], job[8], remaining, settings)
      end
      if delay then
        put_off(queue, jid, delay)
      elseif not (job[9] and seldom1('has_option', job[9], 'q') and put_back(queue, jid, job[9])) then
        return jid
      end
      stop_limited(jid, job[9])
    end
  end
end
local function expire(queue, limit, settings)
  local taken = {}
  while limit > 0 do
    local before = dropped
    local ended = call('zrangebyscore', prefix .. 'q:' .. queue .. '-locks', '-inf', stamp, 'LIMIT', 0, limit)
    for _, jid in ipairs(ended) do
      taken[#taken + 1] = expire_lock(queue, jid, settings)
    end
    limit = math.min(dropped - before, 1000 - dropped)
    if limit > 0 then
      do
        local run, operation, key, list = call, 'zrem', prefix .. 'q:' .. queue .. '-locks', taken
        for from = 1, #list, 1000 do
          run(operation, key, unpack(list, from, math.min(from + 999, #list)))
        end
      end
    end
  end
  do
    local run, operation, key, list = call, 'zrem', prefix .. 'q:' .. queue .. '-work', taken
    for from = 1, #list, 1000 do
      run(operation, key, unpack(list, from, math.min(from + 999, #list)))
    end
  end
  return taken
end
local function hand_back_lost(queue, jids)
  for i = 1, #jids do
    call('zadd', prefix .. 'q:' .. queue .. '-work', '+inf', jids[i])
    call('zrem', prefix .. 'q:' .. queue .. '-locks', jids[i])
    call('hset', prefix .. 'j:' .. jids[i], 'state', 'waiting', 'worker', '', 'expires', '0')
    stop_limited(jids[i], try('hget', prefix .. 'j:' .. jids[i], 'x:o'))
  end
end
  call('zrem', prefix .. 'q:' .. queue .. '-work', '')
  if lost > 0 then
    local cap = read_failing()
    hand_back_lost(queue, expire(queue, math.min(lost, room), read_lost_settings(cap)))
  end
  local locks = lost - call('zcount', prefix .. 'q:' .. queue .. '-locks', '-inf', stamp)
  bring_due(queue, recur > 0, scheduled > 0, room - locks)
  wake(queue)
  return locks + recur - call('zcount', prefix .. 'q:' .. queue .. '-recur', '-inf', stamp) + scheduled - call('zcount', prefix .. 'q:' .. queue .. '-scheduled', '-inf', stamp)
elseif which == 'next_queues' then
  local at = finite(try('hget', prefix .. 'x:sweep', 'at'), 0)
  local queues = try('zrange', prefix .. 'queues', at, at + 100 - 1)
  if #queues < 100 then
    local first = math.max(0, at - finite(try('zcard', prefix .. 'queues'), 0))
    local unlisted = try('zrange', prefix .. 'x:queues', first, first + 100 - #queues - 1)
    for i = 1, #unlisted do
      queues[#queues + 1] = unlisted[i]
    end
  end
  if #queues == 100 then
    try('hset', prefix .. 'x:sweep', 'at', at + 100)
  elseif at > 0 then
    try('hdel', prefix .. 'x:sweep', 'at')
  end
  return queues
end
end
local function sweep_queues(queues)
  if queues[1] == '*' then
    queues = seldom1('next_queues')
  end
  local done = 0
  for i = 1, #queues do
    local fine, moved = pcall(sweep_queue, queues[i])
    if fine then
      done, room = done + moved, room - moved
    end
  end
  return done
end
do
  if redis.acl_check_cmd and not redis.acl_check_cmd('publish', prefix .. 'log') then
    error({err = 'NOPERM this user may not publish to the channel ' .. prefix .. 'log'})
  end
end
if ARGV[2] == '' then
  sweep_failures()
  return call('hexists', prefix .. 'x:sweep', 'cursor')
end
local done = seldom1('end_lives', 100)
if call('exists', prefix .. 'failures', prefix .. 'tracked', prefix .. 'x:rest') > 0 then
  done = done + seldom1('settle_rest')
  if try('exists', prefix .. 'failures') == 1 then
    done = done + sweep_failures()
  end
  seldom1('untrack_gone', 100)
end
if ARGV[2] then
  done = done + sweep_queues({unpack(ARGV, 2)})
end
return done

