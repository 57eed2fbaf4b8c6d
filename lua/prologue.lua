-- The beginning of every call.
--
-- KEYS[1]  the namespace prefix, from Go; classic clients pass no key, and use the prefix ql:
-- ARGV     COMMAND, NOW and the command's arguments

local call = redis.call

-- Reports whether the script's user may run a command. Nil before Redis 7.0, which can't tell.
local may_run = redis.acl_check_cmd

-- Redis before 7.0 with "lua-replicate-commands no", and KeyDB, copy scripts to replicas. They
-- refuse writes after TIME and similar commands until a script asks to copy its writes instead.
if not may_run and redis.replicate_commands then
  redis.replicate_commands()
end

-- Like call, but returns an error as a table with the field err. After a script's first write,
-- every command that could fail on a damaged key is run with try, to finish the rest anyway.
local try = redis.pcall

-- Whether the caller is a classic client, and expects the behavior of qless-core's script.
local classic = not KEYS[1]
local prefix = KEYS[1] or 'ql:'
local command = ARGV[1]

-- Classic clients expect {} for an empty list: cjson can't tell it from an empty object.
local empty_list = classic and '{}' or '[]'

-- Old clients, such as qless-py 0.11.4, omit the worker's name in put.
if classic and command == 'put' and #ARGV % 2 == 1 then
  table.insert(ARGV, 3, '')
end

-- stamp is the time in seconds as text, stored as given; now is its value. If NOW is empty, the
-- server's time is used.
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
