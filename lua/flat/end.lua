-- end: completes or fails a job, whichever worker has it, if any; or has it run again.
--
-- KEYS[1]  the namespace prefix
-- ARGV     NOW, jid, 'complete' or 'failed', group, message, tries [, result]
--          group, message  of a job that fails; else ''
--          tries    how many calls it takes to end the job: the others put a job that runs, or was
--                   timed out, back into its queue, and leave one that waits as it is. The job's
--                   option n counts those calls, unless tries is 0
--          result   JSON
-- Returns  the state of the job: 'complete', 'failed', or that in which it goes on; with '!' before
--          it if the job had ended before, and was left as it is. 'complete+' or 'failed+' if jobs
--          that waited are still to be released or told, which sweep does. 'unlinked' if it waited
--          for more than 1,000 others: now it waits for fewer, and for ever, and the caller asks
--          again. Nil if there is no such job
-- Errors   Job(), End()
-- Cost     2 commands, and those of complete or fail, 2 for each job that it waits for, 2 if a worker
--          has it; 3 more with tries
-- Repeat   once
-- Needs    del exists expire get hdel hexists hget hincrby hkeys hmget hset lindex llen lpush
--          lrange lrem ltrim publish rename rpop rpush sadd scard set sismember smembers spop
--          srandmember srem sscan time unlink zadd zcard zcount zincrby zmscore zpopmax zpopmin
--          zrange zrangebyscore zrank zrem zrevrange zrevrangebyscore zscore

local call = redis.call
local prefix = KEYS[1]
local try = redis.pcall
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
local function finite(text, default)
  local n = text and tonumber(text)
  if n and n - n == 0 then
    return n
  end
  return default
end

local none = {}

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

local function count_existing(keys)
  local count = 0
  for from = 1, #keys, 1000 do
    count = count + call('exists', unpack(keys, from, math.min(from + 999, #keys)))
  end
  return count
end

local seldom1











local unheard = 0











local function entry(at, what, details)
  return '[' .. string.format('%d', at) .. ',' .. what .. (details and ',' .. details or '') .. ']'
end






local function add_failure(jid, group)
  local reply = write_first('lpush', prefix .. 'f:' .. group, jid)
  if type(reply) == 'table' then
    return reply.err
  end
  try('sadd', prefix .. 'failures', group)
end





local tellable = 200




local function job_ended(jid, stored, state)
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
local function without_letter(text, letter)
  local letters, body = string.match(text, '^(%a+)(|.*)$')
  letters = string.gsub(letters, letter, '')
  return letters == '' and '' or letters .. body
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
  local _, values = seldom1('split_options', text)
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
  seldom1('wake_for', queue, due and due - now or 0)
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
  local _, values = seldom1('split_options', stored)
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
  local _, values = seldom1('split_options', stored)
  return finite(values[letter]) == 0
end
local function note_life(jid, ends)
  if ends then
    try('zadd', prefix .. 'x:until', string.format('%.17g', ends), jid)
  else
    try('zrem', prefix .. 'x:until', jid)
  end
end
local function limit_key(name, part)
  return prefix .. 'x:limit:' .. name .. ':' .. part
end
local function limits_of(text)
  local _, values = seldom1('split_options', text)
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
  seldom1('wake', queue)
  return true
end
local function arm(jid, queue, at, paused)
  local scheduled = prefix .. 'q:' .. queue .. '-scheduled'
  local due = finite(try('zscore', scheduled, jid))
  if due and due > at then
    try('zadd', scheduled, string.format('%.17g', at), jid)
    if not paused and not is_claimed(queue, at, '') then
      seldom1('wake_for', queue, at - now)
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
local function record(key, text, cap)
  local length = try('rpush', key .. '-history', text)
  if length ~= 1 and length ~= 2 and type(length) == 'number' and (not cap or length > cap) then
    seldom1('trim_history', key .. '-history', length, cap)
  end
  return length
end
local function adopt_history(jid, text)
  if text then
    seldom1('move_history', jid, text)
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
local function mark_exhausted(jid, queue, group, failure, cap)
  do
    local key, text, cap = prefix .. 'j:' .. jid, entry(now, '"failed"', cjson.encode({group = group})), cap
    local length = try('rpush', key .. '-history', text)
    if length ~= 1 and length ~= 2 and type(length) == 'number' and (not cap or length > cap) then
      seldom1('trim_history', key .. '-history', length, cap)
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
local function read_failing()
  local values = try('hmget', prefix .. 'config', 'max-job-history', 'jobs-failed-history',
    'jobs-failed-history-count')
  return finite(values[1], 100), ((values[2] or values[3]) and {seconds = finite(values[2], -1), count = finite(values[3], -1)})
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
  remove_tags(jid, seldom1('names_of', job[4]), 1)
  call('del', key, key .. '-history')
  if (string.find(stored, '^%a*[stkK]') ~= nil) then
    note_life(jid)
  end
  return 'deleted'
end
local function rest_key(jid)
  return prefix .. 'x:rest:' .. jid
end
local function fail_unasked(jid, queue, group, message, stored, ended)
  local key = prefix .. 'j:' .. jid
  leave_queue(queue, jid)
  if seldom1('has_option', stored, 'g') then
    seldom1('leave_turns', queue, try('hget', key, 'priority'))
  end
  for _, other in ipairs(try('smembers', key .. '-dependencies')) do
    undepend(jid, other)
  end
  local cap, keep = read_failing()
  mark_exhausted(jid, queue, group, cjson.encode({group = group, message = message, when = (math.floor(now)), worker = ''}), cap)
  try('publish', prefix .. 'log', (cjson.encode({ jid = jid, event = 'failed', worker = '', group = group, message = message, })))
  ended(jid, stored, 'failed')
  if keep then
    seldom1('file_failure', jid, group, keep, stored)
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
  local letters, values = seldom1('split_options', job[3])
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
local function tell_all(failed, cursor, ended, again)
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
    local belongs = seldom1('result_field', state, job[2], '')
    if string.sub(job[4] or '', 1, #belongs) == belongs then
      found.result = string.sub(job[4], #belongs + 1)
    end
    found.failure = state == 'failed' and job[3] or nil
  end
  return cjson.encode(found), ended
end
local function keep_result(key, state)
  local job = call('hmget', key, 'time', 'x:result', 'x:o')
  local belongs, stored = seldom1('result_field', state, job[1], ''), job[2] or ''
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
  local _, values = seldom1('split_options', text)
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
    local _, values = seldom1('split_options', stored)
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
    tell_all({jid}, '0', job_ended)
  end
  if mortal then
    keep_record(jid, stored, state, forgotten)
  end
  return forgotten and state == 'complete'
end

local function not_owned(area, jid, owner, state, worker, time, since)
  if not state then
    return 'Job ' .. jid .. ' does not exist'
  elseif state ~= 'running' then
    local words = {Fail = ' not', Heartbeat = ' not'}
    return 'Job ' .. jid .. (words[area] or ' is not') .. ' currently running: ' .. state
  elseif owner ~= worker or since and since ~= time then
    local words = {
      Fail = ' running with', Heartbeat = ' given out to', Retry = ' has been given to',
    }
    local taken = (words[area] or ' has been handed out to') .. ' another worker: '
    local again = owner == worker and ', at ' .. tostring(time) or ''
    return 'Job ' .. jid .. taken .. tostring(owner) .. again
  end
end

local releasable = math.huge




local limited = false



local function keep(items, keep_seconds, keep_count)
  local completed, scored = prefix .. 'completed', {stamp, items[1].jid, unpack(items, 3)}
  for i = 2, #items do
    scored[2 * i - 1], scored[2 * i] = stamp, items[i].jid
  end
  if type(try('zadd', completed, unpack(scored))) == 'table' then
    return
  end
  local before
  repeat
    local seconds = -keep_seconds
    if seconds % 1 == 0 and #stamp == 17 and string.sub(stamp, 11, 11) == '.' then
      local digits, decimals = string.format('%d', now + seconds), string.sub(stamp, 11)
      if #digits == 10 and decimals ~= '.000000' then
        before = digits .. decimals
        break
      end
    end
    before = string.format('%.17g', (now + seconds))
  until true
  local excess = call('zcard', completed) - keep_count
  if excess > 0 or call('zcount', completed, '0', before) > 0 then
    seldom1('prune', before, excess, 100 + #items)
  end
end

local function any_dependents(items, more)
  local keys = {more, prefix .. 'x:rest', unpack(items)}
  for i = 1, #items do
    keys[i + 2] = items[i].key .. '-dependents'
  end
  return count_existing(keys) > 0
end

local function read_owned(area, item, worker)
  local key = prefix .. 'j:' .. item.jid
  local job = try('hmget', key, 'queue', 'state', 'worker', 'priority', 'remaining', 'history',
    'grace', 'time', 'x:o')
  local problem = job.err or not item.anybody and
    not_owned(area, item.jid, job[3], job[2], worker, job[8], item.since)
  if problem then
    return problem
  elseif not job[1] then
    return 'Job ' .. item.jid .. ' is in no queue'
  elseif item.here and item.queue ~= job[1] then
    return 'Job ' .. item.jid .. ' running in another queue: ' .. job[1]
  end
  item.key, item.current, item.priority = key, job[1], job[4]
  item.remaining, item.history, item.grace = math.floor(finite(job[5], 0)), job[6], job[7]
  item.stored = job[9]
  if item.result then
    item.ended = seldom1('result_field', 'failed', job[8], item.result)
  end
end

local function give_up(item, worker, fields)
  try('zrem', prefix .. 'q:' .. item.current .. '-locks', item.jid)
  try('zrem', prefix .. 'w:' .. worker .. ':jobs', item.jid)
  do
    local jid, text = item.jid, item.history
    if text then
      seldom1('move_history', jid, text)
    end
  end
  if item.grace then
    call('hdel', item.key, 'grace')
  end
  if item.data ~= '' then
    fields[#fields + 1] = 'data'
    fields[#fields + 1] = item.data
  end
  call('hset', item.key, unpack(fields))
  do
    local queue = item.current
    if try('hexists', prefix .. 'config', queue .. '-max-concurrency') == 1 then
      seldom1('wake', queue)
    end
  end
end
local function fail(worker, item)
  local problem = read_owned('Fail', item, worker) or add_failure(item.jid, item.group)
  if problem then
    return problem
  end
  local jid, group, message = item.jid, item.group, item.message
  try('publish', prefix .. 'log', (cjson.encode({ jid = jid, event = 'failed', worker = worker, group = group, message = message, })))
  do
    local channel, jid = 'failed', jid
    if (type(try('zscore', prefix .. 'tracked', jid)) == 'string') then
      try('publish', prefix .. channel, jid)
    end
  end
  local fields = {'state', 'failed', 'worker', '', 'expires', '',
    'failure', cjson.encode({group = group, message = message, when = (math.floor(now)), worker = worker})}
  if item.ended then
    seldom1('add_result', item, fields)
  end
  give_up(item, worker, fields)
  do
    local queue, jid = item.current, jid
    try('zrem', prefix .. 'q:' .. queue .. '-work', jid)
    try('zrem', prefix .. 'q:' .. queue .. '-locks', jid)
    try('zrem', prefix .. 'q:' .. queue .. '-scheduled', jid)
    try('zrem', prefix .. 'q:' .. queue .. '-depends', jid)
  end
  local cap, keep
  do
    local values = try('hmget', prefix .. 'config', 'max-job-history', 'jobs-failed-history',
      'jobs-failed-history-count')
    cap, keep = finite(values[1], 100), ((values[2] or values[3]) and {seconds = finite(values[2], -1), count = finite(values[3], -1)})
  end
  do
    local key, text, cap = item.key, entry(now, '"failed"', cjson.encode({worker = worker, group = group})), cap
    local length = try('rpush', key .. '-history', text)
    if length ~= 1 and length ~= 2 and type(length) == 'number' and (not cap or length > cap) then
      seldom1('trim_history', key .. '-history', length, cap)
    end
  end
  do
    local queue = item.current
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
  if item.stored then
    job_ended(jid, item.stored, 'failed')
  end
  if keep then
    seldom1('file_failure', jid, group, keep, item.stored)
  end
end

seldom1 = function(which, ...)
if which == 'strict_json' then
local area, name, text = ...
local function reject(area, message)
  error(area .. '(): ' .. message)
end
local function json(area, name, text)
  local ok, value, problem = pcall(cjson.decode, text)
  if not ok or problem then
    do
      local area, message = area, 'Arg "' .. name .. '" missing or not JSON: ' .. string.sub(tostring(text), 1, 200)
      error(area .. '(): ' .. message)
    end
  end
  return value
end
local function is_strict(text)
  if string.find(text, '%c') then
    return false
  end
  local bare = string.gsub(string.gsub(text, '\\.', ''), '"[^"]*"', '')
  for word in string.gmatch(bare, '[%w%.%+%-]+') do
    if word ~= 'true' and word ~= 'false' and word ~= 'null' then
      local digits = string.gsub(string.gsub(word, '[eE][%+%-]?%d+$', ''), '%.%d+$', '')
      if digits ~= '0' and digits ~= '-0' and not string.find(digits, '^%-?[1-9]%d*$') then
        return false
      end
    end
  end
  return true
end
  local value = json(area, name, text)
  if is_strict(text) then
    return text
  end
  local ok, again = pcall(cjson.encode, value)
  if not ok or not again then
    reject(area, 'Arg "' .. name .. '" missing or not JSON: ' .. string.sub(text, 1, 200))
  end
  return again
elseif which == 'has_option' then
local text, letter = ...
  return string.find(text, '^%a*' .. letter) ~= nil
elseif which == 'split_options' then
local text = ...
  local letters, body = string.match(text or '', '^(%a+)|(.*)$')
  local ok, values = pcall(cjson.decode, body or '')
  if ok and type(values) == 'table' then
    return letters, values
  end
  return '', {}
elseif which == 'with_value' then
local text, letter, value = ...
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
local function with_letter(text, letter)
  if not string.find(text or '', '^%a+|') then
    return letter .. '|{}'
  end
  return seldom1('has_option', text, letter) and text or letter .. text
end
  local letters, values = seldom1('split_options', with_letter(text, letter))
  values[letter] = value
  return join_options(letters, values)
elseif which == 'leave_turns' then
local queue, priority = ...
local function first_turn(queue, priority)
  local first = try('zrevrangebyscore', prefix .. 'q:' .. queue .. '-work', string.format('%.17g', (priority - 0.5)),
    '(' .. string.format('%.17g', (priority - 1)), 'WITHSCORES', 'LIMIT', 0, 1)
  local score = finite(first[2])
  return score and math.max(priority - 0.5 - score, 0), first.err
end
local function turns_key(queue, priority)
  return prefix .. 'x:fair:' .. string.format('%.17g', priority) .. ':' .. queue
end
  priority = finite(priority, 0)
  local first, damaged = first_turn(queue, priority)
  local key = turns_key(queue, priority)
  if first then
    try('expire', key, 604800)
  elseif not damaged then
    try('unlink', key)
  end
elseif which == 'wake' then
local queue = ...
local function note_missing(name, queue)
  local key = prefix .. 'x:listed:' .. name
  if try('exists', key) == 1 then
    try('hset', key, queue, '1')
  end
end
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
elseif which == 'wake_for' then
local queue, delay = ...
  return delay < 3600 and seldom1('wake', queue)
elseif which == 'stop_limited' then
local jid, stored = ...
local function note_filled(queue, known)
  if (known or call('exists', prefix .. 'x:empty') == 1)
    and try('sadd', prefix .. 'x:filled', queue) == 1 then
    call('expire', prefix .. 'x:filled', 1)
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
  local _, values = seldom1('split_options', text)
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
  seldom1('wake', queue)
  return true
end
local function arm(jid, queue, at, paused)
  local scheduled = prefix .. 'q:' .. queue .. '-scheduled'
  local due = finite(try('zscore', scheduled, jid))
  if due and due > at then
    try('zadd', scheduled, string.format('%.17g', at), jid)
    if not paused and not is_claimed(queue, at, '') then
      seldom1('wake_for', queue, at - now)
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
  if not stored or not seldom1('has_option', stored, 'c') then
    return
  end
  local found, jids = limits_of(stored), {}
  for i = 1, #found do
    jids[found[i]] = {jid}
  end
  free_slots(found, jids)
elseif which == 'stop_all_limited' then
local items = ...
local function note_filled(queue, known)
  if (known or call('exists', prefix .. 'x:empty') == 1)
    and try('sadd', prefix .. 'x:filled', queue) == 1 then
    call('expire', prefix .. 'x:filled', 1)
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
  local _, values = seldom1('split_options', text)
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
  seldom1('wake', queue)
  return true
end
local function arm(jid, queue, at, paused)
  local scheduled = prefix .. 'q:' .. queue .. '-scheduled'
  local due = finite(try('zscore', scheduled, jid))
  if due and due > at then
    try('zadd', scheduled, string.format('%.17g', at), jid)
    if not paused and not is_claimed(queue, at, '') then
      seldom1('wake_for', queue, at - now)
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
local function free_slots(names_in_order, jids)
  for _, name in ipairs(names_in_order) do
    local freed = try('zrem', limit_key(name, 'held'), unpack(jids[name]))
    if type(freed) == 'number' and freed > 0 then
      limit_freed(name)
    end
  end
end
  local found, jids = {}, {}
  for i = 1, #items do
    local stored = items[i].stored
    if stored and items[i].anybody then
      leave_limits(items[i].jid, stored)
      stored = nil
    end
    for _, name in ipairs(stored and seldom1('has_option', stored, 'c') and limits_of(stored) or none) do
      if not jids[name] then
        jids[name], found[#found + 1] = {}, name
      end
      table.insert(jids[name], items[i].jid)
    end
  end
  free_slots(found, jids)
elseif which == 'names_of' then
local text = ...
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
  local found = {}
  for _, name in ipairs(list_of(text)) do
    if type(name) == 'string' or type(name) == 'number' then
      found[#found + 1] = tostring(name)
    end
  end
  return found
elseif which == 'trim_history' then
local key, length, cap = ...
  cap = cap or finite((try('hget', prefix .. 'config', 'max-job-history')), 100)
  if cap > 0 and length > cap then
    local first = call('lindex', key, 0)
    call('ltrim', key, -math.max(cap - 1, 1), -1)
    call('lpush', key, first)
  end
elseif which == 'move_history' then
local jid, text = ...
local function may_write(key)
  return not redis.acl_check_cmd or redis.acl_check_cmd('del', key)
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
elseif which == 'adopt_before' then
local jid, text, recorded, cap = ...
local function record(key, text, cap)
  local length = try('rpush', key .. '-history', text)
  if length ~= 1 and length ~= 2 and type(length) == 'number' and (not cap or length > cap) then
    seldom1('trim_history', key .. '-history', length, cap)
  end
  return length
end
  if type(text) == 'string' then
    try('rpop', prefix .. 'j:' .. jid .. '-history')
    seldom1('move_history', jid, text)
    record(prefix .. 'j:' .. jid, recorded, cap)
  end
elseif which == 'begin_day' then
local kind, day, queue = ...
local function expire_stats(key, day)
  local keep = day + 86400 * (1 + finite(try('hget', prefix .. 'config', 'stats-history'), 30)) - now
  try('expire', key, string.format('%.0f', math.min(math.max(keep, 60), 1e10)))
end
local function buckets_of(key)
  local buckets, fields = {}, try('hkeys', key)
  for i = 1, #fields do
    if string.find(fields[i], '^[smhd]%-?%d+$') then
      buckets[#buckets + 1] = fields[i]
    end
  end
  return buckets, #fields > 0
end
local function prune_histograms(kind, day, queue)
  local from = finite(try('hget', prefix .. 'config', 'histogram-history'), 7)
  local to = math.min(finite(try('hget', prefix .. 'config', 'stats-history'), 30), from + 90)
  local keys = {}
  for age = math.max(from, 0) + 1, to do
    keys[#keys + 1] = prefix .. 's:' .. kind .. ':' .. string.format('%d', (day - 86400 * age)) .. ':' .. queue
  end
  local left = #keys > 0 and count_existing(keys) or 0
  for i = 1, left > 0 and #keys or 0 do
    local buckets, exists = buckets_of(keys[i])
    if exists then
      left = #buckets > 0 and left - 1 or 0
      do
        local run, operation, key, list = call, 'hdel', keys[i], buckets
        for from = 1, #list, 1000 do
          run(operation, key, unpack(list, from, math.min(from + 999, #list)))
        end
      end
    end
    if left == 0 then
      return
    end
  end
end
  expire_stats(prefix .. 's:' .. kind .. ':' .. string.format('%d', day) .. ':' .. queue, day)
  prune_histograms(kind, day, queue)
elseif which == 'file_failure' then
local jid, group, keep, stored = ...
local function note_life(jid, ends)
  if ends then
    try('zadd', prefix .. 'x:until', string.format('%.17g', ends), jid)
  else
    try('zrem', prefix .. 'x:until', jid)
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
  remove_tags(jid, seldom1('names_of', job[4]), 1)
  call('del', key, key .. '-history')
  if (string.find(stored, '^%a*[stkK]') ~= nil) then
    note_life(jid)
  end
  return 'deleted'
end
local function clear_list(seconds)
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
end
local function clear_group(group, keep, limit)
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
end
  local left = 100
  if keep.seconds >= 0 then
    if not (stored and seldom1('has_option', stored, 'K')) then
      try('zadd', prefix .. 'failed-jobs-list', stamp, jid)
    end
    left = left - clear_list(keep.seconds)
  end
  if left > 0 then
    clear_group(group, keep, math.min(left, 10))
  end
elseif which == 'result_field' then
local state, time, result = ...
  return state .. '|' .. (time or '') .. '|' .. result
elseif which == 'settle_rest' then
local function each_slice(run, operation, key, list)
  for from = 1, #list, 1000 do
    run(operation, key, unpack(list, from, math.min(from + 999, #list)))
  end
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
  local _, values = seldom1('split_options', text)
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
  seldom1('wake_for', queue, due and due - now or 0)
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
local function record(key, text, cap)
  local length = try('rpush', key .. '-history', text)
  if length ~= 1 and length ~= 2 and type(length) == 'number' and (not cap or length > cap) then
    seldom1('trim_history', key .. '-history', length, cap)
  end
  return length
end
local function adopt_history(jid, text)
  if text then
    seldom1('move_history', jid, text)
  end
end
local function mark_exhausted(jid, queue, group, failure, cap)
  do
    local key, text, cap = prefix .. 'j:' .. jid, entry(now, '"failed"', cjson.encode({group = group})), cap
    local length = try('rpush', key .. '-history', text)
    if length ~= 1 and length ~= 2 and type(length) == 'number' and (not cap or length > cap) then
      seldom1('trim_history', key .. '-history', length, cap)
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
local function rest_key(jid)
  return prefix .. 'x:rest:' .. jid
end
local function fail_unasked(jid, queue, group, message, stored, ended)
  local key = prefix .. 'j:' .. jid
  leave_queue(queue, jid)
  if seldom1('has_option', stored, 'g') then
    seldom1('leave_turns', queue, try('hget', key, 'priority'))
  end
  for _, other in ipairs(try('smembers', key .. '-dependencies')) do
    undepend(jid, other)
  end
  local cap, keep = read_failing()
  mark_exhausted(jid, queue, group, cjson.encode({group = group, message = message, when = (math.floor(now)), worker = ''}), cap)
  try('publish', prefix .. 'log', (cjson.encode({ jid = jid, event = 'failed', worker = '', group = group, message = message, })))
  ended(jid, stored, 'failed')
  if keep then
    seldom1('file_failure', jid, group, keep, stored)
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
  local letters, values = seldom1('split_options', job[3])
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
local function tell_all(failed, cursor, ended, again)
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
    tell_all({jid}, cursor, job_ended)
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
elseif which == 'release_dependents' then
local jid = ...
local function each_slice(run, operation, key, list)
  for from = 1, #list, 1000 do
    run(operation, key, unpack(list, from, math.min(from + 999, #list)))
  end
end
local function note_filled(queue, known)
  if (known or call('exists', prefix .. 'x:empty') == 1)
    and try('sadd', prefix .. 'x:filled', queue) == 1 then
    call('expire', prefix .. 'x:filled', 1)
  end
end
local function fair_share(text)
  local _, values = seldom1('split_options', text)
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
  seldom1('wake_for', queue, due and due - now or 0)
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
local function forget_untold(jid)
  call('del', rest_key(jid))
  call('zrem', prefix .. 'x:rest', jid)
end
local function leave_rest(jid, dependents)
  local key = rest_key(jid)
  if type(try('get', key)) == 'string' then
    forget_untold(jid)
  end
  if try('exists', key) ~= 0 or try('zadd', prefix .. 'x:rest', stamp, jid) ~= 1 then
    return false
  elseif type(try('rename', dependents, key)) == 'table' and try('exists', key) ~= 1 then
    call('zrem', prefix .. 'x:rest', jid)
    return false
  end
  return true
end
  local dependents = prefix .. 'j:' .. jid .. '-dependents'
  local count = try('scard', dependents)
  if count == 0 or type(count) == 'table' or count > releasable and leave_rest(jid, dependents) then
    return
  end
  local others = call('smembers', dependents)
  releasable = releasable - #others
  call('del', dependents)
  release_some(jid, others, dependents)
elseif which == 'prune' then
local before, excess, limit = ...
local function each_slice(run, operation, key, list)
  for from = 1, #list, 1000 do
    run(operation, key, unpack(list, from, math.min(from + 999, #list)))
  end
end
local function delete_job(jid)
  local key = prefix .. 'j:' .. jid
  local job = try('hmget', key, 'state', 'tags')
  if job[1] ~= 'complete' then
    return
  end
  do
    local jid, tags, first = jid, seldom1('names_of', job[2]), 1
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
end
  local completed = prefix .. 'completed'
  local old = call('zrangebyscore', completed, 0, before, 'LIMIT', 0, limit)
  if excess > #old then
    old = call('zrange', completed, 0, math.min(excess, limit) - 1)
  end
  for i = 1, #old do
    delete_job(old[i])
  end
  each_slice(call, 'zrem', completed, old)
elseif which == 'settle_result' then
local item, state, queue = ...
  local fields = {'state', state, 'queue', queue, 'time', stamp, 'worker', '', 'failure', '{}',
    'expires', '0', 'remaining', item.retries, 'x:result', seldom1('result_field', state, stamp, item.result)}
  if item.data ~= '' then
    fields[#fields + 1] = 'data'
    fields[#fields + 1] = item.data
  end
  call('hset', item.key, unpack(fields))
elseif which == 'advance' then
local item, cap = ...
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
local function with_letter(text, letter)
  if not string.find(text or '', '^%a+|') then
    return letter .. '|{}'
  end
  return seldom1('has_option', text, letter) and text or letter .. text
end
local function merge_options(old, given, ended)
  local gone = (given.drop or '') .. (ended and 'strwn' or '')
  if not given.o and gone == '' then
    return
  end
  local letters, values = seldom1('split_options', old)
  for letter in string.gmatch(gone, '%a') do
    letters = string.gsub(letters, letter, '')
    values[letter] = nil
  end
  local added, new = seldom1('split_options', given.o)
  for key, value in pairs(new) do
    values[key] = value
  end
  for letter in string.gmatch(added, '%a') do
    if not string.find(letters, letter, 1, true) then
      letters = letters .. letter
    end
  end
  if not string.find(letters, '[st]') then
    values.put = nil
  end
  return letters == '' and '' or join_options(letters, values)
end
local function write_options(key, old, given)
  local text = merge_options(old, given)
  if text == '' then
    call('hdel', key, 'x:o')
  elseif text then
    call('hset', key, 'x:o', text)
  end
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
local function know_queue(queue)
  local queues = prefix .. 'queues'
  if not try('zrank', queues, queue) and try('zadd', queues, 'NX', stamp, queue) == 1 then
    try('zrem', prefix .. 'x:queues', queue)
    do
      local queue = queue
      try('publish', prefix .. 'x:queues', queue)
    end
  end
end
local function fair_share(text)
  local _, values = seldom1('split_options', text)
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
local function undepend(jid, other)
  try('srem', prefix .. 'j:' .. other .. '-dependents', jid)
  try('srem', prefix .. 'j:' .. jid .. '-dependencies', other)
end
local function keep_delay(key, delay, means_none)
  if delay > 0 then
    call('hset', key, 'scheduled', string.format('%.17g', (now + delay)))
    call('hdel', key, 'x:undelayed')
  elseif means_none and call('hexists', key, 'scheduled') == 1 then
    call('hset', key, 'x:undelayed', '1')
  end
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
  seldom1('wake_for', queue, due and due - now or 0)
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
local function note_life(jid, ends)
  if ends then
    try('zadd', prefix .. 'x:until', string.format('%.17g', ends), jid)
  else
    try('zrem', prefix .. 'x:until', jid)
  end
end
local function renew_lifetimes(text)
  local letters, values = seldom1('split_options', text)
  if not string.find(letters, '[st]') then
    return text
  end
  values.put = math.floor(now)
  return join_options(letters, values)
end
local function renew_life(jid)
  local text = renew_lifetimes(call('hget', prefix .. 'j:' .. jid, 'x:o'))
  call('hset', prefix .. 'j:' .. jid, 'x:o', text)
  local _, values = seldom1('split_options', text)
  note_life(jid, end_in_state(values, 'waiting'))
end
local function array(list)
  if #list == 0 then
    return '[]'
  end
  return cjson.encode(list)
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
local function record(key, text, cap)
  local length = try('rpush', key .. '-history', text)
  if length ~= 1 and length ~= 2 and type(length) == 'number' and (not cap or length > cap) then
    seldom1('trim_history', key .. '-history', length, cap)
  end
  return length
end
local function adopt_history(jid, text)
  if text then
    seldom1('move_history', jid, text)
  end
end
local function mark_exhausted(jid, queue, group, failure, cap)
  do
    local key, text, cap = prefix .. 'j:' .. jid, entry(now, '"failed"', cjson.encode({group = group})), cap
    local length = try('rpush', key .. '-history', text)
    if length ~= 1 and length ~= 2 and type(length) == 'number' and (not cap or length > cap) then
      seldom1('trim_history', key .. '-history', length, cap)
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
local function difference(list, other, first)
  local gone, kept = {}, {}
  for i = first, #other do
    gone[other[i]] = true
  end
  for i = 1, #list do
    if not gone[list[i]] then
      kept[#kept + 1] = list[i]
    end
  end
  return kept
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
local function read_failing()
  local values = try('hmget', prefix .. 'config', 'max-job-history', 'jobs-failed-history',
    'jobs-failed-history-count')
  return finite(values[1], 100), ((values[2] or values[3]) and {seconds = finite(values[2], -1), count = finite(values[3], -1)})
end
local function rest_key(jid)
  return prefix .. 'x:rest:' .. jid
end
local function fail_unasked(jid, queue, group, message, stored, ended)
  local key = prefix .. 'j:' .. jid
  leave_queue(queue, jid)
  if seldom1('has_option', stored, 'g') then
    seldom1('leave_turns', queue, try('hget', key, 'priority'))
  end
  for _, other in ipairs(try('smembers', key .. '-dependencies')) do
    undepend(jid, other)
  end
  local cap, keep = read_failing()
  mark_exhausted(jid, queue, group, cjson.encode({group = group, message = message, when = (math.floor(now)), worker = ''}), cap)
  try('publish', prefix .. 'log', (cjson.encode({ jid = jid, event = 'failed', worker = '', group = group, message = message, })))
  ended(jid, stored, 'failed')
  if keep then
    seldom1('file_failure', jid, group, keep, stored)
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
  local letters, values = seldom1('split_options', job[3])
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
local function tell_all(failed, cursor, ended, again)
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
end
local function watch(jid, ended, some)
  local failed = {}
  for _, other in ipairs(some or try('smembers', prefix .. 'j:' .. jid .. '-dependencies')) do
    local key = prefix .. 'j:' .. other
    local job = try('hmget', key, 'state', 'x:o')
    if job[1] and not (job[2] and seldom1('has_option', job[2], 'd')) then
      local stored = job[2] and string.find(job[2], '^%a+|{') and job[2] or '|{}'
      call('hset', key, 'x:o', 'd' .. stored)
    end
    if job[1] == 'failed' then
      failed[#failed + 1] = other
    end
  end
  local more = {}
  for _, other in ipairs(failed) do
    tell_each({jid}, other, more, ended)
  end
  tell_all(more, '0', ended)
end
local function mark_result(key)
  call('hset', key, 'x:o', with_letter(call('hget', key, 'x:o'), 'r'))
end
local function settle(item, state, queue)
  local key = item.key
  if item.result then
    seldom1('settle_result', item, state, queue)
  elseif item.data ~= '' then
    call('hset', key, 'state', state, 'queue', queue, 'time', stamp, 'worker', '', 'failure', '{}',
      'expires', '0', 'remaining', item.retries, 'data', item.data)
  else
    call('hset', key, 'state', state, 'queue', queue, 'time', stamp, 'worker', '', 'failure', '{}',
      'expires', '0', 'remaining', item.retries)
  end
end
local function write_change(item, change)
  call('hset', item.key, 'priority', item.priority or '0', 'retries', item.retries)
  if change.tags then
    remove_tags(item.jid, difference(change.old_tags, change.tags, 1), 1)
    add_tags(item.jid, change.tags, 1)
    call('hset', item.key, 'tags', array(change.tags))
  end
  if change.o or change.drop then
    write_options(item.key, call('hget', item.key, 'x:o'), change)
  end
end
local function publish_advance(item, woken)
  if woken or 1 == 1 then
    try('publish', prefix .. 'log', ('{"queue":' .. cjson.encode(item.queue) .. ',"to":' .. cjson.encode(item.next) .. ',"event":"advanced","jid":' .. cjson.encode(item.jid) .. '}'))
  else
    try('publish', prefix .. 'log', (cjson.encode({ jid = item.jid, event = 'advanced', queue = item.queue, to = item.next, })))
  end
end
  local jid, queue, delay, part = item.jid, item.next, item.delay, item.part
  record(item.key, entry(now, '"put"', cjson.encode({q = queue})), cap)
  know_queue(queue)
  if item.change then
    write_change(item, item.change)
  end
  if item.result then
    mark_result(item.key)
  end
  if item.stored and (string.find(item.stored, '^%a*[stkK]') ~= nil) then
    renew_life(jid)
  end
  if part == 'depends' then
    settle(item, 'depends', queue)
    call('zadd', prefix .. 'q:' .. queue .. '-depends', stamp, jid)
    keep_delay(item.key, delay, item.checked)
    publish_advance(item)
    local stored = item.change and item.change.o or item.stored
    if stored and (seldom1('has_option', stored, 'f') or item.stored and seldom1('has_option', item.stored, 'f')) then
      watch(jid, job_ended)
      return call('hget', item.key, 'state')
    end
    return 'depends'
  end
  local state = 'waiting'
  if part == 'scheduled' then
    state = 'scheduled'
    call('zadd', prefix .. 'q:' .. queue .. '-scheduled', string.format('%.17g', (now + delay)), jid)
  else
    call('zadd', prefix .. 'q:' .. queue .. '-work', score_of(queue, item.priority, item.stored, {}), jid)
  end
  settle(item, state, queue)
  note_filled(queue)
  publish_advance(item, seldom1('wake_for', queue, delay))
  return state
elseif which == 'prepare_next' then
local item = ...
local function must_write()
  call('del', prefix .. 'x:none')
end
local function needed(jid, list, first, before)
  local others = {}
  for i = first, #list do
    local other = list[i]
    local state = other == 'x:open' and 'open' or before[other] or try('hget', prefix .. 'j:' .. other, 'state')
    if type(state) == 'table' then
      return nil, 'Job ' .. other .. ' can not be read: ' .. state.err
    elseif state and state ~= 'complete' and other ~= jid then
      others[#others + 1] = other
    end
  end
  return others
end
local function link(jid, others, added)
  for i = 1, 2 * #others do
    local other = others[math.ceil(i / 2)]
    local key, member = prefix .. 'j:' .. other .. '-dependents', jid
    if i % 2 == 0 then
      key, member = prefix .. 'j:' .. jid .. '-dependencies', other
    end
    local reply = try('sadd', key, member)
    if reply == 1 then
      added[#added + 1] = {key, member}
    elseif reply ~= 0 then
      for j = 1, #added do
        call('srem', added[j][1], added[j][2])
      end
      return {key = key, member = member, err = reply.err}
    end
  end
end
  local others, problem = needed(item.jid, item.depends, 1, {})
  if problem then
    return problem
  end
  item.priority = call('hget', item.key, 'priority')
  local change = item.change
  if change then
    item.priority, item.retries = change.priority or item.priority, change.retries or item.retries
    change.old_tags = change.tags and seldom1('names_of', call('hget', item.key, 'tags'))
  end
  item.part = 'work'
  if #others > 0 then
    item.part = 'depends'
  elseif item.delay > 0 and #item.depends == 0 then
    item.part = 'scheduled'
  end
  local size = try('zcard', prefix .. 'q:' .. item.next .. '-' .. item.part)
  if type(size) == 'table' then
    return size.err
  elseif #others > 0 then
    must_write()
    local failed = link(item.jid, others, {})
    return failed and failed.err
  end
elseif which == 'remembered' then
local items = ...
  local kept = {}
  for i = 1, #items do
    if not items[i].forgotten then
      kept[#kept + 1] = items[i]
    end
  end
  return kept
elseif which == 'add_result' then
local item, fields = ...
  fields[#fields + 1] = 'x:result'
  fields[#fields + 1] = item.ended
elseif which == 'unlink_some' then
local jid = ...
local function link(jid, others, added)
  for i = 1, 2 * #others do
    local other = others[math.ceil(i / 2)]
    local key, member = prefix .. 'j:' .. other .. '-dependents', jid
    if i % 2 == 0 then
      key, member = prefix .. 'j:' .. jid .. '-dependencies', other
    end
    local reply = try('sadd', key, member)
    if reply == 1 then
      added[#added + 1] = {key, member}
    elseif reply ~= 0 then
      for j = 1, #added do
        call('srem', added[j][1], added[j][2])
      end
      return {key = key, member = member, err = reply.err}
    end
  end
end
  local others = call('spop', prefix .. 'j:' .. jid .. '-dependencies', 1000)
  for i = 1, #others do
    try('srem', prefix .. 'j:' .. others[i] .. '-dependents', jid)
  end
  link(jid, {'x:open'}, {})
end
end

local jid
do
  local area, name, text = 'Job', 'jid', ARGV[2]
  if not text then
    local words = {
      Job = 'no jid provided', Recurring = 'no jid provided', Queue = 'no queue name provided',
    }
    do
      local area, message = area, words[area] or 'Arg "' .. name .. '" missing'
      error(area .. '(): ' .. message)
    end
  end
  jid = text
end
local as, group, message = ARGV[3], ARGV[4] or '', ARGV[5] or ''
local tries
do
  local area, name, text = 'End', 'tries', ARGV[6]
  local amount
  do
    local area, name, text = area, name, text
    local value
    do
      local area, name, text = area, name, text
      local n = tonumber(text)
      if not n or n - n ~= 0 then
        local words = {
          Failed = 'is not', Peek = 'missing or not', Pop = 'missing or not',
          Priority = 'missing or not', Stats = 'missing or not',
        }
        do
          local area, message = area, 'Arg "' .. name .. '" ' .. (words[area] or 'not') .. ' a number: ' .. tostring(text)
          error(area .. '(): ' .. message)
        end
      end
      value = n
    end
    if value % 1 ~= 0 or math.abs(value) > 2147483647 then
      do
        local area, message = area, 'Arg "' .. name .. '" is not a whole number: ' .. text
        error(area .. '(): ' .. message)
      end
    end
    amount = value
  end
  if amount < 0 then
    do
      local area, message = area, 'Arg "' .. name .. '" is negative: ' .. text
      error(area .. '(): ' .. message)
    end
  end
  tries = amount + 0
end
local result = ARGV[7]
if as ~= 'complete' and as ~= 'failed' then
  do
    local area, message = 'End', 'Unknown state "' .. tostring(as) .. '"'
    error(area .. '(): ' .. message)
  end
end
if as == 'failed' then
  do
    local area, name, text = 'End', 'group', group ~= '' and group
    if not text then
      local words = {
        Job = 'no jid provided', Recurring = 'no jid provided', Queue = 'no queue name provided',
      }
      do
        local area, message = area, words[area] or 'Arg "' .. name .. '" missing'
        error(area .. '(): ' .. message)
      end
    end
  end
end
if result then
  result = seldom1('strict_json', 'End', 'result', result)
end
local key = prefix .. 'j:' .. jid
local job = call('hmget', key, 'state', 'queue', 'worker', 'priority', 'history', 'grace', 'x:o',
  'x:place')
local state, queue, worker = job[1], job[2], job[3] or ''
if not state then
  return false
elseif state == 'complete' or state == 'failed' then
  return '!' .. state
elseif not queue then
  do
    local area, message = 'End', 'Job ' .. jid .. ' is in no queue'
    error(area .. '(): ' .. message)
  end
end
local _, values = seldom1('split_options', job[7])
local calls = finite(values.n, 0) + 1
local held = state == 'running' or state == 'stalled'
local function requeue_in_place()
  local item = {
    jid = jid, key = key, current = queue, history = job[5], grace = job[6], data = '', delay = 0,
  }
  local fields, score = {'state', 'waiting', 'worker', '', 'expires', '0'}, finite(job[4], 0)
  if job[8] then
    score = (finite(job[4], 0) - (finite(job[8], now)) / 10000000000)
    fields[7], fields[8] = 'time', job[8]
  end
  local _, problem
  repeat
    local item, queue, score = item, queue, score
    local state, part = 'waiting', 'work'
    if item.delay > 0 then
      state, part, score = 'scheduled', 'scheduled', string.format('%.17g', (now + item.delay))
    end
    local reply = write_first('zadd', prefix .. 'q:' .. queue .. '-' .. part, score, item.jid)
    if type(reply) == 'table' then
      _, problem = nil, reply.err
      break
    end
    _, problem = state
  until true
  if problem then
    do
      local area, message = 'End', problem
      error(area .. '(): ' .. message)
    end
  end
  give_up(item, worker, fields)
  seldom1('wake_for', queue, 0)
  if job[7] then
    seldom1('stop_limited', jid, job[7])
  end
  return 'waiting'
end
local function end_now()
  local others = call('smembers', key .. '-dependencies')
  local item = {jid = jid, queue = queue, data = '', anybody = true, result = result}
  local problem
  if as == 'complete' then
    item.delay, item.depends = 0, none
    repeat
      local worker, items = worker, {item}
      local owned
      do
        local items, worker = items, worker
        local mine, seen = items, {}
        for i = 1, #items do
          local item = items[i]
          local problem
          if seen[item.jid] then
            problem = 'Job ' .. item.jid .. ' is not currently running: complete'
          else
            repeat
              local item, worker = item, worker
              local jid = item.jid
              local key = prefix .. 'j:' .. jid
              local job = try('hmget', key, 'worker', 'state', 'retries', 'queue', 'time', 'grace', 'x:o')
              local refusal = job.err
              if not refusal and not item.anybody then
                refusal = not_owned('Complete', jid, job[1], job[2], worker, job[5], item.since)
              end
              if refusal then
                problem = refusal
                break
              elseif item.queue ~= job[4] then
                problem = 'Job ' .. jid .. ' running in another queue: ' .. tostring(job[4])
                break
              end
              item.key, item.retries, item.began = key, job[3] or '5', job[5]
              if item.anybody and job[2] ~= 'running' then
                item.began = stamp
              end
              if job[6] or job[7] then
                item.grace, item.stored = job[6], job[7]
                limited = limited or job[7] and string.find(job[7], '^%a*c') ~= nil
              end
              if item.next then
                problem = seldom1('prepare_next', item)
                break
              end
              problem = nil
            until true
          end
          if problem then
            item.problem = problem
            if mine == items then
              mine = {unpack(items, 1, i - 1)}
            end
          elseif mine ~= items then
            mine[#mine + 1] = item
          end
          if not problem and #items > 1 then
            seen[item.jid] = true
          end
        end
        owned = mine
      end
      if #owned == 0 then
        break
      end
      local queues
      do
        local items = owned
        local groups, found = {{queue = items[1].queue, items = items, jids = none, ran = none}}, nil
        for i = 2, #items do
          local queue = items[i].queue
          if not found and queue ~= groups[1].queue then
            groups[1].items = {unpack(items, 1, i - 1)}
            found = {[groups[1].queue] = groups[1]}
          end
          if found then
            local its = found[queue]
            if not its then
              its = {queue = queue, items = {}}
              found[queue] = its
              groups[#groups + 1] = its
            end
            its.items[#its.items + 1] = items[i]
          end
        end
        for i = 1, #groups do
          local jids, durations
          do
            local items = groups[i].items
            local ids, ran = (items[2] and {unpack(items)} or {false}), (items[2] and {unpack(items)} or {false})
            local began, time
            for i = 1, #items do
              local item = items[i]
              if item.began ~= began or i == 1 then
                began, time = item.began, finite(item.began, now)
              end
              ids[i], ran[i] = item.jid, now - time
            end
            jids, durations = ids, ran
          end
          groups[i].jids, groups[i].ran = jids, durations
        end
        queues = groups
      end
      local config
      do
        local queues = queues
        local fields = {'jobs-history', 'jobs-history-count', 'max-job-history', false}
        for i = 1, #queues do
          fields[3 + i] = queues[i].queue .. '-max-concurrency'
        end
        config = try('hmget', prefix .. 'config', unpack(fields))
      end
      local cap = finite(config[3], 100)
      local special = any_dependents(owned, prefix .. 'tracked')
      for i = 1, #queues do
        do
          local queue, jids, ran, worker = queues[i].queue, queues[i].jids, queues[i].ran, worker
          if try('zrem', prefix .. 'q:' .. queue .. '-locks', unpack(jids)) ~= #jids then
            for i = 1, #jids do
              do
                local queue, jid = queue, jids[i]
                try('zrem', prefix .. 'q:' .. queue .. '-work', jid)
                try('zrem', prefix .. 'q:' .. queue .. '-locks', jid)
                try('zrem', prefix .. 'q:' .. queue .. '-scheduled', jid)
                try('zrem', prefix .. 'q:' .. queue .. '-depends', jid)
              end
            end
          end
          try('zrem', prefix .. 'w:' .. worker .. ':jobs', unpack(jids))
          do
            local kind, queue, durations = 'run', queue, ran
            local day = (now - now % 86400)
            local key = prefix .. 's:' .. kind .. ':' .. string.format('%d', day) .. ':' .. queue
            local asked, counts
            do
              local durations = durations
              local fields, seen, short = {'total', 'mean', 'vk', 's0'}, {s0 = 0}, 0
              for i = 1, #durations do
                local seconds = durations[i]
                if seconds >= 0 and seconds < 1 then
                  short = short + 1
                else
                  local name
                  repeat
                    local seconds = seconds
                    if seconds < 60 then
                      name = 's' .. math.floor(seconds)
                      break
                    elseif seconds < 3600 then
                      name = 'm' .. math.floor(seconds / 60)
                      break
                    elseif seconds < 86400 then
                      name = 'h' .. math.floor(seconds / 3600)
                      break
                    end
                    name = 'd' .. string.format('%.0f', math.floor(seconds / 86400))
                  until true
                  if not seen[name] then
                    fields[#fields + 1] = name
                  end
                  seen[name] = (seen[name] or 0) + 1
                end
              end
              if short == 0 then
                table.remove(fields, 4)
              end
              seen.s0 = short
              asked, counts = fields, seen
            end
            local values = try('hmget', key, unpack(asked))
            local total = finite(values[1], 0)
            local mean = finite(values[2], 0)
            local vk = finite(values[3], 0)
            local fresh = total == 0
            if fresh then
              mean, vk = 0, 0
            end
            for i = 1, #durations do
              local value, before = durations[i], mean
              total = total + 1
              mean = mean + (value - mean) / total
              vk = vk + (value - mean) * (value - before)
            end
            local update = {'total', string.format('%d', total), 'mean', mean, 'vk', vk, '', ''}
            for i = 4, #asked do
              update[2 * i - 1] = asked[i]
              update[2 * i] = string.format('%d', finite(values[i], 0) + counts[asked[i]])
            end
            try('hset', key, unpack(update))
            if fresh then
              seldom1('begin_day', kind, day, queue)
            end
          end
        end
      end
      for i = 1, special and #queues or 0 do
        do
          local channel, jids = 'completed', queues[i].jids
          local scores = try('zmscore', prefix .. 'tracked', unpack(jids))
          for i = 1, #scores do
            if scores[i] then
              try('publish', prefix .. channel, jids[i])
            end
          end
        end
      end
      local done, finished, forgetting = ('[' .. string.format('%d', now) .. ',"done"' .. (nil and ',' .. nil or '') .. ']'), owned, false
      for i = 1, #owned do
        local item = owned[i]
        if item.grace then
          call('hdel', item.key, 'grace')
        end
        local entries
        do
          local key, text, cap = item.key, done, cap
          local length = try('rpush', key .. '-history', text)
          if length ~= 1 and length ~= 2 and type(length) == 'number' and (not cap or length > cap) then
            seldom1('trim_history', key .. '-history', length, cap)
          end
          entries = length
        end
        if entries == 1 then
          seldom1('adopt_before', item.jid, try('hget', item.key, 'history'), done, cap)
        end
        if item.next then
          item.state = seldom1('advance', item, cap)
          if finished == owned then
            finished = {unpack(owned, 1, i - 1)}
          end
        else
          item.state = 'complete'
          do
            local item, state, queue = item, 'complete', ''
            local key = item.key
            if item.result then
              seldom1('settle_result', item, state, queue)
            elseif item.data ~= '' then
              call('hset', key, 'state', state, 'queue', queue, 'time', stamp, 'worker', '', 'failure', '{}',
                'expires', '0', 'remaining', item.retries, 'data', item.data)
            else
              call('hset', key, 'state', state, 'queue', queue, 'time', stamp, 'worker', '', 'failure', '{}',
                'expires', '0', 'remaining', item.retries)
            end
          end
          if item.stored and string.find(item.stored, '^%a*[kruw]') and
            job_ended(item.jid, item.stored, 'complete') then
            repeat
              local jid = item.jid
              local key = prefix .. 'j:' .. jid
              local job = try('hmget', key, 'state', 'tags')
              if job[1] ~= 'complete' then
                break
              end
              do
                local jid, tags, first = jid, seldom1('names_of', job[2]), 1
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
            until true
            item.forgotten, forgetting = true, true
          end
          if finished ~= owned then
            finished[#finished + 1] = item
          end
        end
      end
      if #finished > 0 then
        local kept = forgetting and seldom1('remembered', finished) or finished
        if #kept > 0 then
          keep(kept, finite(config[1], 604800),
            finite(config[2], 50000))
        end
        do
          local items, special = finished, special
          local queue, suffix
          for i = 1, #items do
            local item = items[i]
            if item.queue ~= queue then
              queue = item.queue
              suffix = ',"event":"completed","queue":' .. cjson.encode(queue) .. '}'
            end
            try('publish', prefix .. 'log', ('{"jid":' .. cjson.encode(item.jid) .. suffix))
          end
          if special and any_dependents(items, prefix .. 'x:none') then
            for i = 1, #items do
              seldom1('release_dependents', items[i].jid)
            end
            local some = releasable < math.huge
            local _, more = seldom1('settle_rest')
            if some and more then
              items[#items].state = 'complete+'
            end
          end
        end
      end
      for i = 1, #queues do
        if finite(config[3 + i], 0) > 0 then
          seldom1('wake', queues[i].queue)
        end
      end
      if limited then
        seldom1('stop_all_limited', owned)
      end
    until true
    problem, as = item.problem, item.state
  else
    item.group, item.message = group, message
    problem = fail(worker, item)
    as = tellable > 0 and as or 'failed+'
  end
  if problem then
    do
      local area, message = 'End', problem
      error(area .. '(): ' .. message)
    end
  end
  for i = 1, #others do
    do
      local jid, other = jid, others[i]
      try('srem', prefix .. 'j:' .. other .. '-dependents', jid)
      try('srem', prefix .. 'j:' .. jid .. '-dependencies', other)
    end
  end
  return as
end
do
  if redis.acl_check_cmd and not redis.acl_check_cmd('publish', prefix .. 'log') then
    error({err = 'NOPERM this user may not publish to the channel ' .. prefix .. 'log'})
  end
end
if state == 'depends' and calls >= tries
  and call('scard', key .. '-dependencies') > 1000 then
  seldom1('unlink_some', jid)
  return 'unlinked'
end
releasable = 250
if calls >= tries then
  state = end_now()
elseif held then
  state = requeue_in_place()
else
  do
    call('del', prefix .. 'x:none')
  end
end
if state ~= 'waiting' and job[1] == 'waiting' and job[7] and seldom1('has_option', job[7], 'g') then
  seldom1('leave_turns', queue, job[4])
end
do
  if tries > 0 and call('exists', key) == 1 then
    call('hset', key, 'x:o', seldom1('with_value', call('hget', key, 'x:o'), 'n', calls))
  end
end
if held and worker ~= '' then
  do
    local jid, worker = jid, worker
    local message = cjson.encode({jid = jid, event = 'lock_lost', worker = worker})
    try('publish', prefix .. ('w:' .. worker), message)
    try('publish', prefix .. 'log', message)
  end
end
return state

