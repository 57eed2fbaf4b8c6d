-- depends: adds or removes what a job waits for. It must be waiting for something.
--
-- KEYS[1]  the namespace prefix
-- ARGV     NOW, jid, 'on' or 'off', jid... ('off', 'all' ends them all)
-- Returns  1
-- Errors   Depends() when the job's state is not depends
-- Cost     2 commands, 3 for each jid

-- @include "lib/base.lua"
-- @include "lib/check.lua"
-- @include "lib/deps.lua"

local jid = required('Job', 'jid', ARGV[2])
local action = required('Depends', 'command', ARGV[3])
local state = call('hget', job_key(jid), 'state')
if not state then
  reject('Depends', 'Job ' .. jid .. ' does not exist')
elseif state ~= 'depends' then
  reject('Depends', 'Job ' .. jid .. ' is not in the depends state: ' .. state)
end

if action == 'on' then
  depend_on(jid, ARGV, 4)
elseif action == 'off' and ARGV[4] == 'all' then
  for _, other in ipairs(call('smembers', job_key(jid) .. '-dependencies')) do
    undepend(jid, other)
  end
  free(jid, false)
elseif action == 'off' then
  for i = 4, #ARGV do
    undepend(jid, ARGV[i])
  end
  if #ARGV > 3 and waits_for_nothing(jid) then
    free(jid, false)
  end
else
  reject('Depends', 'Arg "command" must be "on" or "off"')
end
return true
