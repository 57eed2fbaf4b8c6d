-- await: how a job has ended, and its result. If it has not ended yet, the script that ends it
-- publishes that on PREFIX x:done:<jid>.
--
-- KEYS[1]  the namespace prefix
-- ARGV     NOW, jid [, 'progress']
-- Returns  as result does. With 'progress', the JSON of a job that has not ended and has said how far
--          it is has a member for that; PREFIX x:progress:<jid> tells the rest
-- Errors   Job()
-- Cost     1 command; 3 if the job has not ended, 4 with its progress
-- Repeat   safe
-- Needs    hget hmget hset

local call = redis.call
local prefix = KEYS[1]



local seldom1








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
elseif which == 'progress_member' then
local jid, stored = ...
local try = redis.pcall
local function finite(text, default)
  local n = text and tonumber(text)
  if n and n - n == 0 then
    return n
  end
  return default
end
local function progress_json(text)
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
  local text = seldom1('has_option', stored, 'p') and try('hget', prefix .. 'j:' .. jid, 'x:progress')
  local shown = type(text) == 'string' and progress_json(text)
  return shown and ',"progress":' .. shown or ''
elseif which == 'read_end' then
local run, jid = ...
local function result_field(state, time, result)
  return state .. '|' .. (time or '') .. '|' .. result
end
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
local found, ended = seldom1('read_end', call, jid)
if found and not ended then
  local key = prefix .. 'j:' .. jid
  local stored = call('hget', key, 'x:o')
  if not (stored and seldom1('has_option', stored, 'w')) then
    call('hset', key, 'x:o', seldom1('with_letter', stored, 'w'))
  end
  if stored and ARGV[3] == 'progress' then
    found = string.sub(found, 1, -2) .. seldom1('progress_member', jid, stored) .. '}'
  end
end
return found

