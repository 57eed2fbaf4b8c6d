-- Events. Changes are published on PREFIX log, or on PREFIX x:log if classic scripts do not publish
-- them. Changes of tracked jobs are published on more channels.

-- Refuses a user without the right to publish, before the first write. Redis before 7.0 can't tell:
-- changes are then made without events. Patched servers must be asked about a whole command.
local function must_publish()
  if may_run and not may_run('publish', prefix .. 'log', '') then
    error({err = 'NOPERM this user may not publish to ' .. prefix .. 'log'})
  end
end

-- Publishes a message. Returns the server's reply: the number of clients that received it.
local function publish(channel, message)
  return try('publish', prefix .. channel, message)
end

-- From this many events on, it pays to check first whether any client listens.
local WORTH_ASKING = 5

-- Reports whether a client may need events on the log. Relays, which also listen to x:listen, need
-- none of ours. Only a server outside a cluster, and without a recent replica, knows all listeners.
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

-- The same for at most a few hundred jobs.
local function publish_each_tracked(channel, jids)
  local scores = try('zmscore', prefix .. 'tracked', unpack(jids))
  for i = 1, #scores do
    if scores[i] then
      publish(channel, jids[i])
    end
  end
end

-- Notifies a worker and the log that the worker has lost its lock on a job.
local function lock_lost(jid, worker)
  local message = cjson.encode({jid = jid, event = 'lock_lost', worker = worker})
  publish('w:' .. worker, message)
  publish('log', message)
end
