-- Lifetimes: the options s, the time by which a job must have been taken; t, the time at which it
-- is gone; k, the seconds for which it is kept after it is complete; and K, the same after it has
-- failed, -1 forever. A put gives s and t in seconds from then, or as times if their letters are in
-- a, as in {"s": 1700000000.5, "a": "s"}.
--
-- s and t belong to one life of the job. "put" among the options is the time at which a script of
-- this project last put it, in whole seconds. If its history shows another put after that, by a
-- script without lifetimes, s and t no longer apply.
--
-- The sorted set x:until has jids by the times at which their jobs expire, or may expire: the job
-- decides.

-- The maximum number of jobs that expire in a call with another purpose.
local MAX_ENDED = 100

-- Whether a job with these options has a lifetime.
local function has_lifetime(text)
  return has_any(text, MORTAL)
end

-- The earlier of two times, either of which may be missing.
local function sooner(a, b) -- cold
  return a and b and math.min(a, b) or a or b
end

-- The time at which a job in a state expires, or nil. since is the time at which it was complete,
-- or failed.
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

-- The time at which a job with these options expires, or nil. since is as above.
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

-- The times at which the waiting jobs of this call expire, by their options.
local met_lives = {}

-- Whether a job has expired without having been deleted. s does not apply to a running job.
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

-- The time at which the record of a complete job with these options ends, as text; false if it is
-- kept like others, or not at all, and then also true.
local function end_of_record(stored) -- cold
  local _, values = split_options(stored)
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

-- The options of a job, in which s and t belong to a put that is made now.
local function renew_lifetimes(text) -- cold
  local letters, values = split_options(text)
  if not has_any(letters, EXPIRING) then
    return text
  end
  values.put = math.floor(now)
  return join_options(letters, values)
end

-- Makes the lifetimes of a job apply in its next queue.
local function renew_life(jid) -- cold
  local text = renew_lifetimes(call('hget', job_key(jid), 'x:o'))
  call('hset', job_key(jid), 'x:o', text)
  local _, values = split_options(text)
  note_life(jid, end_in_state(values, 'waiting'))
end

-- The names of s and t in the errors of a put.
local function lifetime_name(letter) -- cold
  return letter == START_BY and 'StartBy' or 'TTL'
end

-- The seconds until the lifetime s or t ends.
local function left_until(area, letter, ends) -- cold
  if ends <= now then
    reject(area, lifetime_name(letter) .. ' was over ' ..
      string.format('%.3f', now - ends) .. ' s ago')
  end
  return ends - now
end

-- Reads the lifetimes of a put with a delay, and converts s and t to times.
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
