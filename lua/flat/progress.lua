-- progress: records how far jobs of a worker are, and tells those who wait for them.
--
-- KEYS[1]  the namespace prefix
-- ARGV     NOW, worker, then for each job: jid, since, done, total, note
--          since  only a job that runs since this time, unless it is ''
--          total  0 if it is not known
-- Returns  an array with one text for each job: empty, or '!' and why nothing was recorded
-- Errors   Progress(); nothing is written then
-- Cost     2 commands a job, 3 if somebody waits for it
-- Repeat   safe
-- Needs    hmget hset publish time

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
local function named(area, name, text)
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
    return text
  end
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

local function publish(channel, message)
  return try('publish', prefix .. channel, message)
end


local seldom1




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




seldom1 = function(which, ...)
if which == 'has_option' then
local text, letter = ...
  return string.find(text, '^%a*' .. letter) ~= nil
elseif which == 'with_letter' then
local text, letter = ...
  if not string.find(text or '', '^%a+|') then
    return letter .. '|{}'
  end
  return seldom1('has_option', text, letter) and text or letter .. text
elseif which == 'progress_field' then
local done, total, attempt, time, note = ...
  return string.format('%.17g', done) .. '|' .. string.format('%.17g', total) .. '|' .. string.format('%.17g', attempt) .. '|' ..
    string.format('%.17g', time) .. '|' .. note
elseif which == 'progress_json' then
local text = ...
  local values = {string.match(text, '^([^|]+)|([^|]+)|([^|]+)|([^|]+)|(.*)$')}
  for i = 1, 4 do
    local n = finite(values[i])
    if not n then
      return
    end
    values[i] = string.format('%.17g', n)
  end
  return '{"done":' .. values[1] .. ',"total":' .. values[2] .. ',"attempt":' .. values[3] ..
    ',"time":' .. values[4] .. ',"note":' .. cjson.encode(values[5]) .. '}'
end
end

local worker
do
  local area, name, text = 'Progress', 'worker', ARGV[2]
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
if (#ARGV - 2) % 5 ~= 0 then
  do
    local area, message = 'Progress', 'Each job needs 5 args'
    error(area .. '(): ' .. message)
  end
end
local function amount(name, text)
  local n = number('Progress', name, text)
  if n < 0 then
    do
      local area, message = 'Progress', 'Arg "' .. name .. '" is negative: ' .. text
      error(area .. '(): ' .. message)
    end
  end
  return n
end
local function set(item)
  local key = prefix .. 'j:' .. item.jid
  local job = try('hmget', key, 'worker', 'state', 'time', 'retries', 'remaining', 'x:o')
  local problem = job.err or
    not_owned('Progress', item.jid, job[1], job[2], worker, job[3], item.since)
  if problem then
    return problem
  end
  local attempt = math.max(0, finite(job[4], 0) - math.max(0, finite(job[5], 0))) + 1
  local text = seldom1('progress_field', item.done, item.total, attempt, now, item.note)
  local stored = job[6] or ''
  if seldom1('has_option', stored, 'p') then
    call('hset', key, 'x:progress', text)
  else
    call('hset', key, 'x:progress', text, 'x:o', seldom1('with_letter', stored, 'p'))
  end
  if seldom1('has_option', stored, 'w') then
    publish('x:progress:' .. item.jid, seldom1('progress_json', text))
  end
end
local items = {}
for i = 3, #ARGV, 5 do
  items[#items + 1] = {
    jid = named('Progress', 'jid', ARGV[i]),
    since = ARGV[i + 1] ~= '' and ARGV[i + 1] or nil,
    done = amount('done', ARGV[i + 2]),
    total = amount('total', ARGV[i + 3]),
    note = ARGV[i + 4],
  }
end
do
  if redis.acl_check_cmd and not redis.acl_check_cmd('publish', prefix .. 'log') then
    error({err = 'NOPERM this user may not publish to the channel ' .. prefix .. 'log'})
  end
end
local outcomes = {}
for i = 1, #items do
  local problem = set(items[i])
  outcomes[i] = problem and '!' .. problem or ''
end
return outcomes

