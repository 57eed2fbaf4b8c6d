-- Events: every change is told on PREFIX log; what a tracked job does, on a channel of its own.

-- @include "lib/base.lua"

-- Refuses a user who may not publish here, before anything is written. Servers before 7.0
-- can't tell: there, the change is made and nobody hears of it.
local function must_publish()
  if redis.acl_check_cmd and not redis.acl_check_cmd('publish', prefix .. 'log') then
    error({err = 'NOPERM this user may not publish to the channel ' .. prefix .. 'log'})
  end
end

-- Returns the server's reply: how many clients heard it.
local function publish(channel, message)
  return try('publish', prefix .. channel, message)
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

-- What ends a message that tells of a job that is ready in a queue. It is for listeners who wake
-- idle workers: it says that this script does so itself. JSON readers pass over it.
local READY = ' '

-- Tells a worker, and the log, that its lock on a job is gone.
local function lock_lost(jid, worker)
  local message = cjson.encode({jid = jid, event = 'lock_lost', worker = worker})
  publish('w:' .. worker, message)
  publish('log', message)
end
