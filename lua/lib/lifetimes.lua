-- Lifetimes, in four options. A job must have been taken by the time s, and expires at the time t;
-- a complete job is kept for k seconds, and a failed one for K seconds, -1 forever. In a put, s and
-- t are in seconds from then, or times if a has their letters, as in {"s": 1700000000.5, "a": "s"}.
--
-- s and t belong to one life of the job. "put" among the options is the time of the last put by a
-- script of this project, in whole seconds. If the history shows a later put, by a script without
-- lifetimes, s and t no longer apply.
--
-- The sorted set x:until has jids by the times at which their jobs may expire: the job decides.

-- The maximum number of jobs to expire in a call with another purpose.
local MAX_ENDED = 100

-- Reports whether a job with these options has a lifetime.
local function has_lifetime(text)
  return has_any(text, MORTAL)
end

-- Returns the earlier of two times; both are optional.
local function sooner(a, b) -- cold
  return a and b and math.min(a, b) or a or b
end

-- Returns the time at which a job in a state expires, or nil. since is the time of its end, if any.
local function end_in_state(values, state, since) -- cold
  local gone, done, failed = finite(values[TTL]), finite(values[KEEP]), finite(values[KEEP_FAILED])
  if state == 'complete' then
    return sooner(gone, done and since + done)
  elseif state == 'failed' and failed then
    return failed >= 0 and since + failed or nil
  elseif state ~= 'failed' and state ~= 'running' then
    return sooner(gone, finite(values[START_BY]))
  end
  return gone
end

-- Reports whether a job put in a whole second was not put again, as far as its history tells.
local function is_last_put(jid, at) -- cold
  local entries = try('lrange', job_key(jid) .. '-history', 0, -1)
  for i = #entries, 1, -1 do
    local when = string.match(entries[i], '^%[(%-?%d+)[%d.]*,"put"')
    if when then
      return tonumber(when) <= finite(at, 0)
    end
  end
  return true
end

-- Returns the time at which a job with these options expires, or nil. since is as above.
local function end_of_life(jid, stored, state, since) -- cold
  local values = split_options(stored)
  local ends = end_in_state(values, state, since)
  if ends and ends <= now and (values[START_BY] or values[TTL]) and
    not is_last_put(jid, values.put) then
    values[START_BY], values[TTL] = nil, nil
    ends = end_in_state(values, state, since)
  end
  return ends
end

-- The times at which waiting jobs in this call expire, by options.
local met_lives = {}

-- Reports whether a job has expired but not been deleted. s does not apply to a running job.
local function is_over(jid, stored, state) -- cold
  if not has_lifetime(stored) then
    return false
  end
  if not met_lives[stored] then
    met_lives[stored] = end_in_state(split_options(stored), 'waiting') or math.huge
  end
  local may_be = met_lives[stored] <= now or state == 'complete' or state == 'failed'
  return may_be and (end_of_life(jid, stored, state, now) or math.huge) <= now
end

-- Returns the time, as text, until which a complete job with these options is kept. Returns nil for
-- a job kept like others, and false and true for a job not kept at all.
local function end_of_record(stored) -- cold
  local values = split_options(stored)
  local seconds = finite(values[KEEP])
  if seconds == 0 then
    return false, true
  end
  local ends = end_in_state(values, 'complete', now)
  return ends and exact(ends)
end

-- Records the time at which a job expires, or nil.
local function note_life(jid, ends) -- cold
  if ends then
    try('zadd', prefix .. 'x:until', exact(ends), jid)
  else
    try('zrem', prefix .. 'x:until', jid)
  end
end

-- Returns the options of a job with s and t counting from a put made now.
local function renew_lifetimes(text) -- cold
  local values, letters = split_options(text)
  if not has_any(letters, EXPIRING) then
    return text
  end
  values.put = math.floor(now)
  return join_options(letters, values)
end

-- Renews the lifetimes of a job in its next queue.
local function renew_life(jid) -- cold
  local text = renew_lifetimes(call('hget', job_key(jid), 'x:o'))
  call('hset', job_key(jid), 'x:o', text)
  note_life(jid, end_in_state(split_options(text), 'waiting'))
end

-- Reads the lifetimes of a put with a delay, and converts s and t to times.
local function read_lifetimes(area, text, delay) -- cold
  local values, letters = split_options(text)
  if letters == '' then
    reject(area, 'Arg "o" is not JSON: ' .. string.sub(text, 1, 200))
  end
  local given = type(values.a) == 'string' and values.a or '' -- as times
  values.a = nil
  for letter in string.gmatch(letters, '[' .. MORTAL .. ']') do
    local seconds, is_time = finite(values[letter]), letter == START_BY or letter == TTL
    local option = letter == START_BY and 'StartBy' or 'TTL'
    if seconds and is_time and string.find(given, letter, 1, true) then
      if seconds <= now then
        reject(area, option .. ' was over ' .. string.format('%.3f', now - seconds) .. ' s ago')
      end
      seconds = seconds - now
    end
    local least = letter == KEEP_FAILED and -1 or 0
    if not seconds or seconds < least or seconds == 0 and is_time then
      reject(area, 'Arg "o" has no lifetime "' .. letter .. '": ' .. string.sub(text, 1, 200))
    elseif is_time and seconds <= delay then
      reject(area, option .. ' is over after ' .. seconds ..
        ' s, but Delay or At makes the job wait for ' .. delay .. ' s')
    end
    values[letter] = is_time and now + seconds or seconds
    values.put = is_time and math.floor(now) or values.put
  end
  return join_options(letters, values)
end
