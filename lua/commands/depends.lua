-- depends: adds or removes dependencies of a job in the state depends.
--
-- Args     jid, then one of:
--          'on', jid...    adds dependencies
--          'upon', jid...  the same, but refuses a circle
--          'off', jid...   removes them; 'off', 'all' removes all
--          'fewer'         removes 1,000
-- Returns  1; of 'fewer', the number of remaining dependencies
-- Errors   Depends() when the job's state is not depends, a jid is none, or the job would wait for
--          itself
-- Cost     2 commands, 3 for each jid; 1 for each job that waits for this one, at most 1000
-- For      classic
-- Repeat   once

-- The maximum number of dependencies that 'fewer' removes.
local MAX_REMOVED = 1000

local jid = required('Job', 'jid', ARGV[3])
local action = required('Depends', 'command', ARGV[4])
local state, stored = unpack(call('hmget', job_key(jid), 'state', 'x:o'))
if state ~= 'depends' then
  raise('Depends', not_depending(jid, state))
end

local function add()
  local others, problem = needed(jid, check_dependencies('Depends', ARGV, 5), 5, {})
  raise_any('Depends', problem or action == 'upon' and circle_of(jid, others))
  local watches = stored and has_option(stored, POLICY)
  if watches then
    must_publish()
  end
  must_link(jid, others, {})
  if watches then
    watch(jid, job_ended)
  end
end

-- Whether all dependencies of the job are in ended.
local function are_all(ended)
  local key, count = job_key(jid) .. '-dependencies', 0
  for _, other in ipairs(ended) do
    count = count + call('sismember', key, other)
  end
  return count == call('scard', key)
end

-- A job without dependencies is moved to its place first, because that may fail.
local function remove(ended, is_free)
  must_write()
  raise_any('Depends', is_free and free(jid, false))
  for _, other in ipairs(ended) do
    undepend(jid, other)
  end
end

if action == 'on' or action == 'upon' then
  add()
elseif action == 'fewer' then
  local key = job_key(jid) .. '-dependencies'
  local left = math.max(0, call('scard', key) - MAX_REMOVED)
  remove(call('srandmember', key, MAX_REMOVED), left == 0)
  return left
elseif action == 'off' and ARGV[5] == 'all' then
  remove(call('smembers', job_key(jid) .. '-dependencies'), true)
elseif action == 'off' then
  local ended = union({}, ARGV, 5)
  remove(ended, #ended > 0 and are_all(ended))
else
  reject('Depends', 'Argument "command" must be "on" or "off"')
end
return true
