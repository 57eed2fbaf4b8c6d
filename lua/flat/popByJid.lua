-- popByJid: locks one chosen job of a queue for a worker, if it is waiting there. For clients in
-- PHP.
--
-- KEYS[1]  the namespace prefix
-- ARGV     NOW, queue, jid, worker
-- Returns  a JSON array of one element: the job, or an empty object when it does not wait in this
--          queue, or the queue is paused. Its running jobs may exceed <queue>-max-concurrency
-- Errors   Queue(), Pop()
-- Cost     3 commands when there is no such job, else 17
-- Repeat   once
-- Needs    del exists expire hdel hget hkeys hmget hset lindex lpush lrange ltrim publish rpop
--          rpush sismember smembers time zadd zcard zmscore zrem

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




local seldom1


local function lock_time(own, general)
  local seconds = finite(own, 0)
  if seconds <= 0 then
    seconds = finite(general, 0)
  end
  return seconds > 0 and seconds or 60
end























seldom1 = function(which, ...)
if which == 'readable' then
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
  local ok, again = pcall(cjson.encode, list_of(text))
  return ok and again or nil
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
local function entry(at, what, details)
  return '[' .. string.format('%d', at) .. ',' .. what .. (details and ',' .. details or '') .. ']'
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
elseif which == 'unusual_entry' then
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
  local item = list_of(text)
  local object = item[3]
  if type(object) ~= 'table' then
    object = {data = object}
  end
  object.when = item[1]
  object.what = item[2]
  local ok, encoded = pcall(cjson.encode, object)
  return ok and encoded or '{}'
elseif which == 'options_member' then
local text = ...
local function split_options(text)
  local letters, body = string.match(text or '', '^(%a+)|(.*)$')
  local ok, values = pcall(cjson.decode, body or '')
  if ok and type(values) == 'table' then
    return letters, values
  end
  return '', {}
end
  local letters = split_options(text)
  if letters == '' then
    return ''
  end
  return ',"x":' .. string.match(text, '|(.*)$')
elseif which == 'sets_json' then
local dependents, dependencies = ...
local function array(list)
  if #list == 0 then
    return '[]'
  end
  return cjson.encode(list)
end
  return ',"dependents":' .. array(try('smembers', dependents)) ..
    ',"dependencies":' .. array(try('smembers', dependencies))
elseif which == 'begin_day' then
local kind, day, queue = ...
local function expire_stats(key, day)
  local keep = day + 86400 * (1 + finite(try('hget', prefix .. 'config', 'stats-history'), 30)) - now
  try('expire', key, string.format('%.0f', math.min(math.max(keep, 60), 1e10)))
end
local function prune_histograms(kind, day, queue)
  local from = finite(try('hget', prefix .. 'config', 'histogram-history'), 7)
  local to = math.min(finite(try('hget', prefix .. 'config', 'stats-history'), 30), from + 90)
  for age = math.max(from, 0) + 1, to do
    local key = prefix .. 's:' .. kind .. ':' .. string.format('%d', (day - 86400 * age)) .. ':' .. queue
    local buckets = {}
    for _, field in ipairs(try('hkeys', key)) do
      if string.find(field, '^[smhd]%-?%d+$') then
        buckets[#buckets + 1] = field
      end
    end
    if #buckets > 0 then
      do
        local run, operation, key, list = call, 'hdel', key, buckets
        for from = 1, #list, 1000 do
          run(operation, key, unpack(list, from, math.min(from + 999, #list)))
        end
      end
    end
  end
end
  expire_stats(prefix .. 's:' .. kind .. ':' .. string.format('%d', day) .. ':' .. queue, day)
  prune_histograms(kind, day, queue)
elseif which == 'read_rest' then
local jid, key, job, recorded, cap = ...
local function record(key, text, cap)
  local length = try('rpush', key .. '-history', text)
  if length ~= 1 and length ~= 2 and type(length) == 'number' and (not cap or length > cap) then
    seldom1('trim_history', key .. '-history', length, cap)
  end
  return length
end
local function adopt_before(jid, text, recorded, cap)
  if type(text) == 'string' then
    try('rpop', prefix .. 'j:' .. jid .. '-history')
    seldom1('move_history', jid, text)
    record(prefix .. 'j:' .. jid, recorded, cap)
  end
end
  local rest = try('hmget', key, 'failure', 'spawned_from_jid', 'history', 'grace')
  job[10], job[11] = rest[1], rest[2]
  adopt_before(jid, rest[3], recorded, cap)
  if rest[4] then
    call('hdel', key, 'grace')
  end
elseif which == 'lock_special' then
local key, job, worker, settings = ...
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
local function own_lock_time(text)
  local _, values = split_options(text)
  local seconds = finite(has_option(text, 'l') and values.l, 0)
  return seconds > 0 and seconds or nil
end
  local stored, seconds, more = job[9] or '', settings.lock_time, {}
  if seconds then
    more = {'grace', '1.0'}
  end
  if has_option(stored, 'q') then
    more[#more + 1] = 'x:place'
    more[#more + 1] = job[8] or stamp
  end
  local ends = string.format('%.17g', (now + (seconds or own_lock_time(stored) or settings.heartbeat)))
  call('hset', key, 'state', 'running', 'worker', worker, 'expires', ends, 'time', stamp,
    unpack(more))
  return ends
end
end
local function popped_json(jid, job, tracked, worker, expires, more)
  job[10], job[11] = job[10] or false, job[11] or false
  job[12], job[13] = false, jid
  job[14], job[15], job[16] = 'running', worker, expires
  local newest = '{"worker":' .. cjson.encode(worker) .. ',"when":' .. string.format('%d', now) ..
    ',"what":"popped"}'
  do
    local job, tracked, more, newest = job, tracked, more, newest
    local jid, tags, failure = job[13], job[7], job[10]
    do
      local jid, text = jid, job[12]
      if text then
        seldom1('move_history', jid, text)
      end
    end
    local retries, remaining, priority = job[4], job[5], job[3]
    if retries ~= '5' then
      retries = finite(retries, 0)
    end
    if remaining ~= '5' then
      remaining = math.floor(finite(remaining, 0))
    end
    if priority ~= '0' then
      priority = string.format('%.17g', (finite(priority, 0)))
    end
    local encode = cjson.encode
    local history
    repeat
      local jid, newest = jid, newest
      local list = try('lrange', prefix .. 'j:' .. jid .. '-history', '0', '-1')
      local n = #list
      if newest and n > 0 then
        list[n] = newest
        n = n - 1
      end
      for i = 1, n do
        local object
        repeat
          local text = list[i]
          local when, what, details = string.match(text, '^%[(%-?%d+),("[^"\\]*"),{(.+)}%]$')
          if when then
            object = '{' .. details .. ',"when":' .. when .. ',"what":' .. what .. '}'
            break
          end
          when, what = string.match(text, '^%[(%-?%d+),("[^"\\]*")%]$')
          if when then
            object = '{"when":' .. when .. ',"what":' .. what .. '}'
            break
          end
          object = seldom1('unusual_entry', text)
        until true
        list[i] = object
      end
      do
        local texts = list
        if #texts == 0 then
          history = '[]'
          break
        elseif #texts == 1 then
          history = '[' .. texts[1] .. ']'
          break
        elseif #texts == 2 then
          history = '[' .. texts[1] .. ',' .. texts[2] .. ']'
          break
        end
        history = '[' .. table.concat(texts, ',') .. ']'
        break
      end
      history = nil
    until true
    local relations
    repeat
      local jid = jid
      local dependents = prefix .. 'j:' .. jid .. '-dependents'
      local dependencies = prefix .. 'j:' .. jid .. '-dependencies'
      if call('exists', dependents, dependencies) > 0 then
        relations = seldom1('sets_json', dependents, dependencies)
        break
      end
      relations = ',"dependents":[],"dependencies":[]'
    until true
    return '{"tracked":' .. (tracked and 'true' or 'false') ..
      ',"jid":' .. encode(jid) ..
      ',"retries":' .. retries ..
      ',"data":' .. encode(job[6]) ..
      ',"queue":' .. encode(job[2]) ..
      ',"state":' .. encode(job[14]) ..
      ',"remaining":' .. remaining ..
      ',"spawned_from_jid":' .. encode(job[11]) ..
      ',"klass":' .. encode(job[1]) ..
      ',"expires":' .. finite(job[16], 0) ..
      ',"worker":' .. encode(job[15] or '') ..
      ',"priority":' .. priority ..
      ',"tags":' .. (tags and #tags > 2 and seldom1('readable', tags) or '[]') ..
      ',"failure":' .. (failure and failure ~= '{}' and seldom1('readable', failure) or '{}') ..
      ',"history":' .. history .. relations ..
      (job[9] and seldom1('options_member', job[9]) or '') .. (more or '') .. '}'
  end
end

local queue
do
  local area, name, text = 'Queue', 'queue', ARGV[2]
  if not text then
    local words = {
      Job = 'no jid provided', Recurring = 'no jid provided', Queue = 'no queue name provided',
    }
    do
      local area, message = area, words[area] or 'Arg "' .. name .. '" missing'
      error(area .. '(): ' .. message)
    end
  end
  queue = text
end
local jid
do
  local area, name, text = 'Pop', 'jid', ARGV[3]
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
local worker
do
  local area, name, text = 'Pop', 'worker', ARGV[4]
  if not text then
    local words = {
      Job = 'no jid provided', Recurring = 'no jid provided', Queue = 'no queue name provided',
    }
    do
      local area, message = area, words[area] or 'Arg "' .. name .. '" missing'
      error(area .. '(): ' .. message)
    end
  end
  worker = text
end
do
  if redis.acl_check_cmd and not redis.acl_check_cmd('publish', prefix .. 'log') then
    error({err = 'NOPERM this user may not publish to the channel ' .. prefix .. 'log'})
  end
end
local job = call('hmget', prefix .. 'j:' .. jid, 'state', 'queue')
if job[1] ~= 'waiting' or job[2] ~= queue or
  call('sismember', prefix .. 'paused_queues', queue) == 1 then
  return '[{}]'
end
local settings
do
  local queue = queue
  local values = call('hmget', prefix .. 'config', queue .. '-heartbeat', 'heartbeat',
    queue .. '-max-concurrency', 'max-job-history')
  local heartbeat
  do
    local own, general = values[1], values[2]
    local seconds = finite(own, 0)
    if seconds <= 0 then
      seconds = finite(general, 0)
    end
    heartbeat = seconds > 0 and seconds or 60
  end
  settings = {
    heartbeat = heartbeat,
    max_concurrency = finite(values[3], 0),
    cap = finite(values[4], 100),
    tracked = true,
  }
end
call('zcard', prefix .. 'q:' .. queue .. '-locks')
if call('zrem', prefix .. 'q:' .. queue .. '-work', jid) == 0 then
  return '[{}]'
end
local out = {}
do
  local queue, jids, worker, settings, show, out = queue, {jid}, worker, settings, popped_json, out
  for first = 1, #jids, 500 do
    local some = jids
    if #jids > 500 then
      some = {unpack(jids, first, math.min(first + 499, #jids))}
    end
    repeat
      local queue, jids, worker, settings, show, out = queue, some, worker, settings, show, out
      local cap = settings.cap
      local expires
      repeat
        local seconds = settings.heartbeat
        if seconds % 1 == 0 and #stamp == 17 and string.sub(stamp, 11, 11) == '.' then
          local digits, decimals = string.format('%d', now + seconds), string.sub(stamp, 11)
          if #digits == 10 and decimals ~= '.000000' then
            expires = digits .. decimals
            break
          end
        end
        expires = string.format('%.17g', (now + seconds))
      until true
      local details = '{"worker":' .. cjson.encode(worker) .. '}'
      local popped = ('[' .. string.format('%d', now) .. ',"popped"' .. (details and ',' .. details or '') .. ']')
      local jobs, waited, locks = (jids[2] and {unpack(jids)} or {false}), (jids[2] and {unpack(jids)} or {false}), {'0', '-----------------------------------------------------------------', false, unpack(jids)}
      local n, count = 0, #jids
      local put_at, put_time
      for i = 1, count do
        local jid = jids[i]
        local key = prefix .. 'j:' .. jid
        local job = try('hmget', key, 'klass', 'queue', 'priority', 'retries', 'remaining', 'data',
          'tags', 'time', 'x:o')
        if job[1] or not job.err and call('exists', key) == 1 then
          n = n + 1
          local entries
          do
            local key, text, cap = key, popped, cap
            local length = try('rpush', key .. '-history', text)
            if length ~= 1 and length ~= 2 and type(length) == 'number' and (not cap or length > cap) then
              seldom1('trim_history', key .. '-history', length, cap)
            end
            entries = length
          end
          if entries ~= 2 or string.find(jid, '-', 1, true) then
            seldom1('read_rest', jid, key, job, popped, cap)
          end
          local ends = expires
          if job[9] or settings.lock_time then
            ends = seldom1('lock_special', key, job, worker, settings)
          else
            call('hset', key, 'state', 'running', 'worker', worker, 'expires', expires, 'time', stamp)
          end
          if job[8] ~= put_at or n == 1 then
            put_at, put_time = job[8], finite(job[8], now)
          end
          jobs[n], jids[n], waited[n] = job, jid, now - put_time
          locks[2 * n + 1], locks[2 * n + 2] = ends, jid
        else
          call('zrem', prefix .. 'q:' .. queue .. '-locks', jid)
        end
      end
      for i = n + 1, count do
        jids[i], waited[i] = nil, nil
      end
      if n == 0 then
        break
      end
      do
        local queue, worker, locks, n = queue, worker, locks, n
        local first = n < 6 and (string.byte(locks[4], -1) or 1) % 16 > 0 and 3 or 1
        call('zadd', prefix .. 'q:' .. queue .. '-locks', unpack(locks, first, 2 * n + 2))
        local held = try('zadd', prefix .. 'w:' .. worker .. ':jobs', unpack(locks, first, 2 * n + 2))
        if first == 1 then
          call('zrem', prefix .. 'q:' .. queue .. '-locks', '-----------------------------------------------------------------')
          if type(held) == 'number' then
            call('zrem', prefix .. 'w:' .. worker .. ':jobs', '-----------------------------------------------------------------')
          end
        end
      end
      do
        local kind, queue, durations = 'wait', queue, waited
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
      local tracked = settings.tracked and try('zmscore', prefix .. 'tracked', unpack(jids)) or none
      for i = 1, n do
        if tracked[i] then
          try('publish', prefix .. 'popped', jids[i])
        end
        out[#out + 1] = show(jids[i], jobs[i], tracked[i] and true or false, worker,
          locks[2 * i + 1])
      end
    until true
  end
end
write_first('zadd', prefix .. 'workers', stamp, worker)
return '[' .. out[1] .. ']'

