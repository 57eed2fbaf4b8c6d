-- Events: changes are published on PREFIX log, or on PREFIX x:log if the scripts of other clients
-- do not publish them, and changes of tracked jobs on more channels.

-- Refuses a user who may not publish, before anything is written. Servers before 7.0 can't be
-- asked: there, the change is made without an event.
local function must_publish()
  if redis.acl_check_cmd and not redis.acl_check_cmd('publish', prefix .. 'log') then
    error({err = 'NOPERM this user may not publish to the channel ' .. prefix .. 'log'})
  end
end

-- Returns the server's reply: how many clients received it.
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

-- Notifies a worker and the log that it has lost its lock on a job.
local function lock_lost(jid, worker)
  local message = cjson.encode({jid = jid, event = 'lock_lost', worker = worker})
  publish('w:' .. worker, message)
  publish('log', message)
end
