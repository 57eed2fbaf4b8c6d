-- log: adds an entry to a job's history.
--
-- KEYS[1]  the namespace prefix
-- ARGV     NOW, jid, message [, json]
-- Returns  nil
-- Errors   Log() when there is no such job
-- Cost     2 commands
-- Repeat   once
-- Needs    hdel hget hmget lindex llen lpush ltrim rpush time

-- @include "lib/base.lua"
-- @include "lib/check.lua"
-- @include "lib/clock.lua"
-- @include "lib/history.lua"

-- Whether a strict parser accepts what cjson accepted: cjson allows control characters in
-- strings, and numbers such as nan, 0x10 and 1.
local function strict(text)
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

local jid = required('Log', 'jid', ARGV[2])
local message = required('Log', 'message', ARGV[3])
local data = ARGV[4]
if data then
  -- The history is part of the job's JSON: an unreadable entry would make the job unreadable.
  local details = json('Log', 'data', data)
  if not strict(data) then
    local ok, again = pcall(cjson.encode, details)
    if not ok or not again then
      reject('Log', 'Arg "data" missing or not JSON: ' .. string.sub(data, 1, 200))
    end
    data = again
  end
end

local job = call('hmget', job_key(jid), 'state', 'history')
if not job[1] then
  reject('Log', 'Job ' .. jid .. ' does not exist')
end
local list, text = job_key(jid) .. '-history', entry(now, cjson.encode(message), data)
call('llen', list) -- fails before anything is written, or not at all
adopt_history(jid, job[2])
if type(record(job_key(jid), text)) == 'table' then
  call('rpush', list, text) -- the same error, for the caller
end
