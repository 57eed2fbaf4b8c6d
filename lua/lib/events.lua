-- Events: every change is told on PREFIX log; what a tracked job does, on a channel of its own.

-- @include "lib/base.lua"

local function publish(channel, message)
  call('publish', prefix .. channel, message)
end

local function is_tracked(jid)
  return call('zscore', prefix .. 'tracked', jid) and true or false
end

local function publish_tracked(channel, jid)
  if is_tracked(jid) then
    publish(channel, jid)
  end
end

-- Tells a worker, and the log, that its lock on a job is gone.
local function lock_lost(jid, worker)
  local message = cjson.encode({jid = jid, event = 'lock_lost', worker = worker})
  publish('w:' .. worker, message)
  publish('log', message)
end
