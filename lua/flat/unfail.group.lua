-- unfail.group: moves jobs of a failure group, the oldest failures first, each into its own queue.
--
-- KEYS[1]  the namespace prefix
-- ARGV     NOW, group, count (at most 500), then pairs: retries, n; ttl, seconds; report, '1'
--          with report, what is in the group by mistake leaves it without being moved
-- Returns  how many were moved; with report, JSON {count, left: [[jid, code, why], ...], looked,
--          total}: how many were moved, which were not, how many were looked at, and how many there were
-- Errors   Unfail.group()
-- Cost     4 commands, 5 a queue, 6 a job
-- Repeat   once
-- Needs    exists expire get hdel hget hincrby hmget hset lindex llen lpush lrange ltrim publish
--          rpush sadd set srem time unlink zadd zcard zpopmax zpopmin zrangebyscore zrem
--          zrevrangebyscore zscore

local call = redis.call
local prefix = KEYS[1]
local try = redis.pcall

local function number(area, name, text)
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
  return n
end
local function whole(area, name, text)
  local amount
  do
    local area, name, text = area, name, text
    local value = number(area, name, text)
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
  return amount + 0
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


local function entry(at, what, details)
  return '[' .. string.format('%d', at) .. ',' .. what .. (details and ',' .. details or '') .. ']'
end
local seldom1



local function days_kept(option, default)
  do
    local text, default = try('hget', prefix .. 'config', option), default
    local n = text and tonumber(text)
    if n and n - n == 0 then
      return n
    end
    return default
  end
end


local left_out = {}
local function report(count, more)
  return '{"count":' .. count .. ',"left":' .. array(left_out) .. (more or '') .. '}'
end









local unheard = 0


local function read_failed(jid, queue)
  local job = try('hmget', prefix .. 'j:' .. jid, 'queue', 'priority', 'retries', 'failure', 'history',
    'x:o', 'state')
  if job[1] then
    return {
      jid = jid, from = job[1], to = queue or job[1], state = job[7],
      priority = job[2], retries = job[3], failure = job[4], history = job[5], stored = job[6],
    }
  end
end

local function add_work(jobs)
  local queues, its = {}, {}
  for i = 1, #jobs do
    local to = jobs[i].to
    if not its[to] then
      queues[#queues + 1], its[to] = to, {}
    end
    table.insert(its[to], jobs[i])
  end
  for i = 2, #queues do
    call('zcard', prefix .. 'q:' .. queues[i] .. '-work')
  end
  for i = 1, #queues do
    do
      local run, operation, key, list = call, 'zadd', prefix .. 'q:' .. queues[i] .. '-work', seldom1('scores_of', queues[i], its[queues[i]])
      for from = 1, #list, 1000 do
        run(operation, key, unpack(list, from, math.min(from + 999, #list)))
      end
    end
  end
  return queues
end
local function read_gift(area, first, last)
  local given
  repeat
    local area, first, last = area, first, last
    local found = {}
    if last < first then
      given = found
      break
    end
    if (last - first) % 2 == 0 or last > #ARGV then
      do
        local area, message = area, 'Odd number of additional args'
        error(area .. '(): ' .. message)
      end
    end
    for i = first, last, 2 do
      found[ARGV[i]] = ARGV[i + 1]
    end
    given = found
  until true
  if given.retries then
    given.retries = string.format('%d', whole(area, 'retries', given.retries))
  end
  local seconds = given.ttl and number(area, 'ttl', given.ttl)
  if seconds then
    local text = 't|{"t":' .. string.format('%.17g', seconds) .. '}'
    given.o, given.ends = seldom1('read_lifetimes', area, text, 0), now + seconds
  end
  return given
end
seldom1 = function(which, ...)
if which == 'trim_history' then
local key, length, cap = ...
local function finite(text, default)
  local n = text and tonumber(text)
  if n and n - n == 0 then
    return n
  end
  return default
end
  cap = cap or finite((try('hget', prefix .. 'config', 'max-job-history')), 100)
  if cap > 0 and length > cap then
    local first = call('lindex', key, 0)
    call('ltrim', key, -math.max(cap - 1, 1), -1)
    call('lpush', key, first)
  end
elseif which == 'move_history' then
local jid, text = ...
local function finite(text, default)
  local n = text and tonumber(text)
  if n and n - n == 0 then
    return n
  end
  return default
end
local function may_write(key)
  return not redis.acl_check_cmd or redis.acl_check_cmd('del', key)
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
elseif which == 'know_unlisted' then
local queue = ...
local function publish_queue(queue)
  try('publish', prefix .. 'x:queues', queue)
end
  local listed = try('zscore', prefix .. 'queues', queue)
  if not listed and try('zadd', prefix .. 'x:queues', 'NX', stamp, queue) == 1 then
    publish_queue(queue)
  end
elseif which == 'read_lifetimes' then
local area, text, delay = ...
local function finite(text, default)
  local n = text and tonumber(text)
  if n and n - n == 0 then
    return n
  end
  return default
end
local function reject(area, message)
  error(area .. '(): ' .. message)
end
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
local function lifetime_name(letter)
  return letter == 's' and 'StartBy' or 'TTL'
end
local function left_until(area, letter, ends)
  if ends <= now then
    reject(area, lifetime_name(letter) .. ' was over ' .. string.format('%.3f', now - ends) .. ' s ago')
  end
  return ends - now
end
  local letters, values = split_options(text)
  if letters == '' then
    reject(area, 'Arg "o" is not JSON: ' .. string.sub(text, 1, 200))
  end
  local given = type(values.a) == 'string' and values.a or ''
  values.a = nil
  for letter in string.gmatch(letters, '[stkK]') do
    local seconds, is_time = finite(values[letter]), letter == 's' or letter == 't'
    if seconds and is_time and string.find(given, letter, 1, true) then
      seconds = left_until(area, letter, seconds)
    end
    local least = letter == 'K' and -1 or 0
    if not seconds or seconds < least or seconds == 0 and is_time then
      reject(area, 'Arg "o" has no lifetime "' .. letter .. '": ' .. string.sub(text, 1, 200))
    elseif is_time and seconds <= delay then
      reject(area, lifetime_name(letter) .. ' is over after ' .. seconds ..
        ' s, but Delay or At makes the job wait for ' .. delay .. ' s')
    end
    values[letter] = is_time and now + seconds or seconds
    values.put = is_time and math.floor(now) or values.put
  end
  return join_options(letters, values)
elseif which == 'wake' then
local queue = ...
local function finite(text, default)
  local n = text and tonumber(text)
  if n and n - n == 0 then
    return n
  end
  return default
end
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
elseif which == 'scores_of' then
local queue, jobs = ...
local function finite(text, default)
  local n = text and tonumber(text)
  if n and n - n == 0 then
    return n
  end
  return default
end
local function has_option(text, letter)
  return string.find(text, '^%a*' .. letter) ~= nil
end
local function split_options(text)
  local letters, body = string.match(text or '', '^(%a+)|(.*)$')
  local ok, values = pcall(cjson.decode, body or '')
  if ok and type(values) == 'table' then
    return letters, values
  end
  return '', {}
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
  local work, turns = {}, {}
  for i = #jobs, 1, -1 do
    local job = jobs[i]
    work[#work + 1] = job.stored and has_option(job.stored, 'g')
      and fair_score(queue, job.priority, job.stored, turns)
      or (finite(job.priority, 0) - (now + (job.after or 0) * 0.000001) / 10000000000)
    work[#work + 1] = job.jid
  end
  return work
elseif which == 'restore' then
local job, given = ...
local function finite(text, default)
  local n = text and tonumber(text)
  if n and n - n == 0 then
    return n
  end
  return default
end
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
local function merge_options(old, given, ended)
  local gone = (given.drop or '') .. (ended and 'strwn' or '')
  if not given.o and gone == '' then
    return
  end
  local letters, values = split_options(old)
  for letter in string.gmatch(gone, '%a') do
    letters = string.gsub(letters, letter, '')
    values[letter] = nil
  end
  local added, new = split_options(given.o)
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
local function holder_of(name)
  local ends, jid = stored_claim(name)
  if not jid then
    return
  elseif ends ~= '0' then
    return finite(ends, 0) > now and jid or nil, try('hmget', prefix .. 'j:' .. jid, 'state')[1] or ''
  end
  local holder, state, claim = kept_by(name, jid)
  if holder then
    return holder, state, claim
  end
  return kept_before(name, claim)
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
local function claim_again(jid, stored)
  local claim = claim_of(stored)
  if claim and claim.m ~= 'for' and (holder_of(claim.k) or jid) == jid then
    return claim
  end
end
  local stored = job.stored or ''
  local claim = claim_again(job.jid, stored)
  if claim then
    write_claim(job.jid, claim)
  end
  if given.o or string.find(stored, '^%a*[stkKn]') then
    write_options(prefix .. 'j:' .. job.jid, stored, {o = given.o, drop = 'stn'})
    note_life(job.jid, given.ends)
  end
end
end

local area = 'Unfail.group'
local group
repeat
  local area, name, text = area, 'group', ARGV[2]
  do
    local area, name, text = area, name, text ~= '' and text
    if not text then
      local words = {
        Job = 'no jid provided', Recurring = 'no jid provided', Queue = 'no queue name provided',
      }
      do
        local area, message = area, words[area] or 'Arg "' .. name .. '" missing'
        error(area .. '(): ' .. message)
      end
    end
    group = text
    break
  end
  group = nil
until true
local count = whole(area, 'count', ARGV[3])
if count < 1 or count > 500 then
  do
    local area, message = area, 'Arg "count" is not from 1 to 500: ' .. ARGV[3]
    error(area .. '(): ' .. message)
  end
end
local given = read_gift(area, 4, #ARGV)
local function unfail_some()
local function drop_empty_group(group)
  if call('exists', prefix .. 'f:' .. group) == 0 then
    try('srem', prefix .. 'failures', group)
  end
end
local function leave_out(jid, code, why)
  left_out[#left_out + 1] = {jid, code, why}
end
local function unfail(jobs, given)
  local queues, jids = add_work(jobs), {}
  for i = #jobs, 1, -1 do
    local job = jobs[i]
    local key = prefix .. 'j:' .. job.jid
    jids[#jids + 1] = job.jid
    do
      local jid, text = job.jid, job.history
      if text then
        seldom1('move_history', jid, text)
      end
    end
    do
      local key, text, cap = key, entry(now, '"put"', cjson.encode({q = job.to}))
      local length = try('rpush', key .. '-history', text)
      if length ~= 1 and length ~= 2 and type(length) == 'number' and (not cap or length > cap) then
        seldom1('trim_history', key .. '-history', length, cap)
      end
    end
    do
      local queue, failure = job.from, list_of(job.failure)
      local at
      repeat
        local text, default = failure.when
        local n = text and tonumber(text)
        if n and n - n == 0 then
          at = n
          break
        end
        at = default
      until true
      if at and queue then
        do
          local day, queue, field, by = (at - at % 86400), queue, 'failed', -1
          local key = prefix .. 's:stats:' .. string.format('%d', day) .. ':' .. queue
          if try('hincrby', key, field, by) == by then
            do
              local key, day = key, day
              local keep = day + 86400 * (1 + days_kept('stats-history', 30)) - now
              try('expire', key, string.format('%.0f', math.min(math.max(keep, 60), 1e10)))
            end
          end
        end
      end
    end
    call('hset', key, 'state', 'waiting', 'worker', '', 'expires', '0',
      'queue', job.to, 'remaining', given.retries or job.retries or '5')
    if given.retries then
      call('hset', key, 'retries', given.retries)
    end
    if job.stored or given.o then
      seldom1('restore', job, given)
    end
  end
  do
    local jids = jids
    do
      local run, operation, key, list = try, 'zrem', prefix .. 'failed-jobs-list', jids
      for from = 1, #list, 1000 do
        run(operation, key, unpack(list, from, math.min(from + 999, #list)))
      end
    end
  end
  for i = 1, #queues do
    seldom1('know_unlisted', queues[i])
    do
      local queue, known = queues[i]
      if (known or call('exists', prefix .. 'x:empty') == 1)
        and try('sadd', prefix .. 'x:filled', queue) == 1 then
        call('expire', prefix .. 'x:filled', 1)
      end
    end
    seldom1('wake', queues[i])
  end
  do
    local jobs = jobs
    local queues, events = {}, {}
    for i = 1, #jobs do
      local job = jobs[i]
      local event = events[job.to]
      if event then
        event.count, event.jid = event.count + 1, nil
      else
        queues[#queues + 1] = job.to
        events[job.to] = {
          event = 'unfailed', queue = job.to, jid = job.jid, count = 1,
          group = list_of(job.failure).group,
        }
      end
    end
    for i = 1, #queues do
      do
        local event = events[queues[i]]
        try('publish', prefix .. 'x:log', (cjson.encode(event)))
      end
    end
  end
end
local function read_all_failed(jids)
  local jobs = {}
  for i = 1, #jids do
    local job = read_failed(jids[i])
    if not job then
      leave_out(jids[i], 'not_found', 'no such job')
    elseif job.state ~= 'failed' then
      leave_out(jids[i], 'not_failed', 'the job is ' .. tostring(job.state))
    else
      job.after = #jids - i
      jobs[#jobs + 1] = job
    end
  end
  return jobs
end
  local key = prefix .. 'f:' .. group
  local total = call('llen', key)
  local jids = call('lrange', key, -count, -1)
  local jobs = read_all_failed(jids)
  unfail(jobs, given)
  call('ltrim', key, 0, -count - 1)
  drop_empty_group(group)
  return report(#jobs, ',"looked":' .. #jids .. ',"total":' .. total)
end
if given.report then
  return unfail_some()
end
do
  local group, count, queue, given = group, count, nil, given
  if count == 0 then
    return 0
  end
  local key = prefix .. 'f:' .. group
  local jids, jobs = call('lrange', key, -count, -1), {}
  for i = 1, #jids do
    jobs[#jobs + 1] = read_failed(jids[i], queue)
  end
  do
    local jobs, given = jobs, given
    local queues, jids = add_work(jobs), {}
    for i = #jobs, 1, -1 do
      local job = jobs[i]
      local key = prefix .. 'j:' .. job.jid
      jids[#jids + 1] = job.jid
      do
        local jid, text = job.jid, job.history
        if text then
          seldom1('move_history', jid, text)
        end
      end
      do
        local key, text, cap = key, entry(now, '"put"', cjson.encode({q = job.to}))
        local length = try('rpush', key .. '-history', text)
        if length ~= 1 and length ~= 2 and type(length) == 'number' and (not cap or length > cap) then
          seldom1('trim_history', key .. '-history', length, cap)
        end
      end
      do
        local queue, failure = job.from, list_of(job.failure)
        local at
        repeat
          local text, default = failure.when
          local n = text and tonumber(text)
          if n and n - n == 0 then
            at = n
            break
          end
          at = default
        until true
        if at and queue then
          do
            local day, queue, field, by = (at - at % 86400), queue, 'failed', -1
            local key = prefix .. 's:stats:' .. string.format('%d', day) .. ':' .. queue
            if try('hincrby', key, field, by) == by then
              do
                local key, day = key, day
                local keep = day + 86400 * (1 + days_kept('stats-history', 30)) - now
                try('expire', key, string.format('%.0f', math.min(math.max(keep, 60), 1e10)))
              end
            end
          end
        end
      end
      call('hset', key, 'state', 'waiting', 'worker', '', 'expires', '0',
        'queue', job.to, 'remaining', given.retries or job.retries or '5')
      if given.retries then
        call('hset', key, 'retries', given.retries)
      end
      if job.stored or given.o then
        seldom1('restore', job, given)
      end
    end
    do
      local jids = jids
      do
        local run, operation, key, list = try, 'zrem', prefix .. 'failed-jobs-list', jids
        for from = 1, #list, 1000 do
          run(operation, key, unpack(list, from, math.min(from + 999, #list)))
        end
      end
    end
    for i = 1, #queues do
      seldom1('know_unlisted', queues[i])
      do
        local queue, known = queues[i]
        if (known or call('exists', prefix .. 'x:empty') == 1)
          and try('sadd', prefix .. 'x:filled', queue) == 1 then
          call('expire', prefix .. 'x:filled', 1)
        end
      end
      seldom1('wake', queues[i])
    end
    do
      local jobs = jobs
      local queues, events = {}, {}
      for i = 1, #jobs do
        local job = jobs[i]
        local event = events[job.to]
        if event then
          event.count, event.jid = event.count + 1, nil
        else
          queues[#queues + 1] = job.to
          events[job.to] = {
            event = 'unfailed', queue = job.to, jid = job.jid, count = 1,
            group = list_of(job.failure).group,
          }
        end
      end
      for i = 1, #queues do
        do
          local event = events[queues[i]]
          try('publish', prefix .. 'x:log', (cjson.encode(event)))
        end
      end
    end
  end
  call('ltrim', key, 0, -count - 1)
  do
    local group = group
    if call('exists', prefix .. 'f:' .. group) == 0 then
      try('srem', prefix .. 'failures', group)
    end
  end
  return #jids
end

