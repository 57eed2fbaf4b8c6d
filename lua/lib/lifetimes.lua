-- Lifetimes: the options s, the time by which a job must have been handed out; t, the time at which
-- it is gone; k, for how many seconds it is kept after it is complete; and K, the same after it has
-- failed, -1 for ever. A put says s and t in seconds from then, or as times if their letters are in
-- a, as in {"s": 1700000000.5, "a": "s"}.
--
-- s and t belong to one life of the job. "put" among the options is when it was last put by a
-- script of this project, in whole seconds. If its history shows another put after that, by a
-- script that knows nothing of lifetimes, s and t no longer hold.
--
-- The sorted set x:until has jids by when the lives of these jobs end, or may end: the job decides.

-- The maximum number of lives that a call ends whose business is another one.
local MAX_ENDED = 100

-- Whether a job with these options has a lifetime.
local function has_lifetime(text)
  return has_any(text, MORTAL)
end

-- The earlier of two times, of which any may be missing.
local function sooner(a, b) -- cold
  return a and b and math.min(a, b) or a or b
end

-- When a job in a state ends its life, or nil. since is when it was complete, or had failed.
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

-- Whether a job that was put at a time, in whole seconds, was not put again since then. A short
-- history lacks that put.
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

-- When a job with these options ends its life, or nil. since is as above.
local function end_of_life(jid, stored, state, since) -- cold
  local _, values = split_options(stored)
  local ends = end_in_state(values, state, since)
  if ends and ends <= now and (values[START_BY] or values[TTL]) and
    not is_last_put(jid, values.put) then
    values[START_BY], values[TTL] = nil, nil
    ends = end_in_state(values, state, since)
  end
  return ends
end

-- When the lives of waiting jobs end that this call has met, by their options.
local met_lives = {}

-- Whether the life of a job that has not ended has passed. A running one may not be waiting.
local function is_over(jid, stored, state) -- cold
  if not has_lifetime(stored) then
    return false
  end
  if not met_lives[stored] then
    local _, values = split_options(stored)
    met_lives[stored] = end_in_state(values, 'waiting') or math.huge
  end
  local may_be = met_lives[stored] <= now or state == 'complete' or state == 'failed'
  return may_be and (end_of_life(jid, stored, state, now) or math.huge) <= now
end

-- Whether a job with these options is deleted as soon as it has failed.
local function is_forgotten(stored) -- cold
  local _, values = split_options(stored)
  return finite(values[KEEP_FAILED]) == 0
end

-- When the record of a job with these options ends that is complete, as text: false if it is kept
-- as others are, or has no record.
local function end_of_record(stored) -- cold
  local _, values = split_options(stored)
  local seconds = finite(values[KEEP])
  if seconds == 0 then
    return false, true
  end
  local ends = end_in_state(values, 'complete', now)
  return ends and exact(ends)
end

-- Notes when a job ends its life; nil if it doesn't.
local function note_life(jid, ends) -- cold
  if ends then
    try('zadd', prefix .. 'x:until', exact(ends), jid)
  else
    try('zrem', prefix .. 'x:until', jid)
  end
end

-- The options of a job, in which s and t belong to a put that is made now.
local function renew_lifetimes(text) -- cold
  local letters, values = split_options(text)
  if not has_any(letters, EXPIRING) then
    return text
  end
  values.put = math.floor(now)
  return join_options(letters, values)
end

-- Has the lifetimes of a job hold in its next queue.
local function renew_life(jid) -- cold
  local text = renew_lifetimes(call('hget', job_key(jid), 'x:o'))
  call('hset', job_key(jid), 'x:o', text)
  local _, values = split_options(text)
  note_life(jid, end_in_state(values, 'waiting'))
end

-- How the errors of a put name s and t.
local function lifetime_name(letter) -- cold
  return letter == START_BY and 'StartBy' or 'TTL'
end

-- How many seconds are left until a time at which the lifetime s or t ends.
local function left_until(area, letter, ends) -- cold
  if ends <= now then
    reject(area, lifetime_name(letter) .. ' was over ' ..
      string.format('%.3f', now - ends) .. ' s ago')
  end
  return ends - now
end

-- Reads the lifetimes of a put with a delay, and makes times of s and t.
local function read_lifetimes(area, text, delay) -- cold
  local letters, values = split_options(text)
  if letters == '' then
    reject(area, 'Arg "o" is not JSON: ' .. string.sub(text, 1, 200))
  end
  local given = type(values.a) == 'string' and values.a or '' -- as times
  values.a = nil
  for letter in string.gmatch(letters, '[' .. MORTAL .. ']') do
    local seconds, is_time = finite(values[letter]), letter == START_BY or letter == TTL
    if seconds and is_time and string.find(given, letter, 1, true) then
      seconds = left_until(area, letter, seconds)
    end
    local least = letter == KEEP_FAILED and -1 or 0
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
end
