-- Events: every change is told on PREFIX log; what a tracked job does, on a channel of its own.

-- @include "lib/base.lua"

-- How many clients heard it.
local function publish(channel, message)
  return call('publish', prefix .. channel, message)
end

local function is_tracked(jid)
  return call('zscore', prefix .. 'tracked', jid) and true or false
end

local function publish_tracked(channel, jid)
  if is_tracked(jid) then
    publish(channel, jid)
  end
end

-- The same for several jobs, at most a few hundred.
local function publish_each_tracked(channel, jids)
  local scores = call('zmscore', prefix .. 'tracked', unpack(jids))
  for i = 1, #scores do
    if scores[i] then
      publish(channel, jids[i])
    end
  end
end

-- What ends a message that tells of a job that is ready in a queue. It is for listeners who wake
-- idle workers: it says that this script does so itself. JSON readers pass over it.
local READY = ' '

-- Tells a worker, and the log, that its lock on a job is gone.
local function lock_lost(jid, worker)
  local message = cjson.encode({jid = jid, event = 'lock_lost', worker = worker})
  publish('w:' .. worker, message)
  publish('log', message)
end
