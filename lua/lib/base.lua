-- The basis of every command: the namespace and the names of keys.

-- An empty list, never changed.
local none = {}

-- Fails if the server accepts no writes at all, such as a replica, or a master with too few
-- replicas. The key never exists.
local function must_write()
  call('del', prefix .. 'x:none')
end

-- Tries to add a member to a sorted set, as the first write of a script that takes or ends jobs. A
-- server without free memory rejects this first write, but not one after a write that needs none.
local function add_first(key, score, member)
  local reply = try('zadd', key, score, member)
  if type(reply) == 'table' then
    must_write()
    reply = try('zadd', key, score, member)
  end
  return reply
end

-- Returns the value of a number given as text, or default unless it is a finite number.
local function finite(text, default)
  local n = text and tonumber(text)
  if n and n - n == 0 then
    return n
  end
  return default
end

local function job_key(jid)
  return prefix .. 'j:' .. jid
end

local function recur_key(jid)
  return prefix .. 'r:' .. jid
end

local function queue_key(queue, part)
  return prefix .. 'q:' .. queue .. '-' .. part
end

local function worker_key(worker)
  return prefix .. 'w:' .. worker .. ':jobs'
end

-- Reads some fields of a hash, with call or try. Returns them by name, false if missing, and the
-- error of try as err.
local function named_fields(run, key, wanted) -- cold
  local values = run('hmget', key, unpack(wanted))
  local found = {err = values.err}
  for i = 1, #wanted do
    found[wanted[i]] = values[i] or false
  end
  return found
end

-- Reports whether the script's user may write this key. For a read-only user, scripts change
-- nothing. Before Redis 7.0 this is unknown, and the first write fails.
local function may_write(key) -- cold
  return not may_run or may_run('del', key)
end
