-- The beginning of every call.
--
-- KEYS[1]  the namespace prefix, from Go; other clients have no key, and the prefix ql:
-- ARGV     COMMAND, NOW and the command's arguments

local call = redis.call

-- Whether the script's user may run a command. Servers before 7.0 can't tell.
local may_run = redis.acl_check_cmd

-- Redis before 7.0 with "lua-replicate-commands no", and KeyDB, copy scripts to replicas. They
-- refuse writes after TIME and the like until a script asks them to copy its writes instead.
if not may_run and redis.replicate_commands then
  redis.replicate_commands()
end

-- Like call, but returns an error as a table with the field err. After a script's first write,
-- every command that a damaged key could fail is run this way, so that the rest is done anyway.
local try = redis.pcall

-- Whether the caller is a client in another language, which expects the behavior of qless-core's
-- script.
local classic = not KEYS[1]
local prefix = KEYS[1] or 'ql:'
local command = ARGV[1]

-- To Lua, an empty list is the same as an empty object, and cjson writes both like this.
local empty_list = classic and '{}' or '[]'

-- Old clients, such as qless-py 0.11.4, omit the worker's name in put.
if classic and command == 'put' and #ARGV % 2 == 1 then
  table.insert(ARGV, 3, '')
end

-- stamp is the time in seconds as text, stored as it was given; now is its value. If NOW is empty,
-- it is the server's time.
local stamp, usual = ARGV[2], true
if stamp == '' then
  local time = call('time')
  stamp = time[1] .. string.sub('.000000', 1, 7 - #time[2]) .. time[2]
else
  usual = stamp and string.find(stamp, '^%d+%.?%d*$')
end
local now = usual and stamp + 0 or tonumber(stamp) -- tonumber reads a text twice
if not now or now - now ~= 0 then
  error('Arg "now" missing or not a number: ' .. tostring(stamp))
end
if not usual then
  stamp = string.format('%.17g', now)
end
