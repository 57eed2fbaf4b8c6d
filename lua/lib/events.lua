-- Events: changes are published on PREFIX log, or on PREFIX x:log if the scripts of other clients
-- do not publish them. Changes of tracked jobs are published on more channels.

-- Refuses a user who may not publish, before anything is written. Servers before 7.0 can't tell:
-- there, the change is made without an event. Patched ones want to be asked about a whole command,
-- with a message.
local function must_publish()
  if may_run and not may_run('publish', prefix .. 'log', '') then
    error({err = 'NOPERM this user may not publish to ' .. prefix .. 'log'})
  end
end

-- Returns the server's reply: the number of clients that received it.
local function publish(channel, message)
  return try('publish', prefix .. channel, message)
end

-- The number of events from which on it pays to check first whether any client listens.
local WORTH_ASKING = 5

-- Whether a client may need events on the log: relays, which also listen to x:listen, need none of
-- ours. Only a server that is not in a cluster, and has had no replica recently, knows all
-- listeners.
local function is_heard() -- cold
  if classic or KEYS[2] then
    return true
  end
  local heard = try('pubsub', 'numsub', prefix .. 'log', prefix .. 'x:listen')
  if heard.err or heard[2] ~= heard[4] or try('pubsub', 'numpat') ~= 0 then
    return true
  end
  local about = try('info', 'replication')
  return type(about) ~= 'string' or not string.find(about, 'repl_backlog_active:0', 1, true)
end

local function is_tracked(jid)
  return type(try('zscore', prefix .. 'tracked', jid)) == 'string'
end

local function publish_tracked(channel, jid)
  if is_tracked(jid) then
    publish(channel, jid)
  end
end

-- The same for several jobs, at most a few hundred.
local function publish_each_tracked(channel, jids)
  local scores = try('zmscore', prefix .. 'tracked', unpack(jids))
  for i = 1, #scores do
    if scores[i] then
      publish(channel, jids[i])
    end
  end
end

-- Notifies a worker and the log that it has lost its lock on a job.
local function lock_lost(jid, worker)
  local message = cjson.encode({jid = jid, event = 'lock_lost', worker = worker})
  publish('w:' .. worker, message)
  publish('log', message)
end
