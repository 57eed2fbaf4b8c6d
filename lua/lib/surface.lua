-- Behavior for classic clients. It matches qless-core's script exactly: neither the clients nor
-- their tests can tell the scripts apart. For Go, it is different.

-- Returns the maximum number of dependencies that a call removes to cancel or end a job.
local function max_unlinked()
  return classic and 1000000000 or 1000
end

-- Publishes a message unknown to classic scripts. Their clients' subscriptions to patterns of
-- channels must not receive it, so it is published only if the exact channel has subscribers.
local function publish_ours(channel, message)
  if classic then
    local heard = try('pubsub', 'numsub', prefix .. channel)
    if not heard.err and heard[2] == 0 then
      return
    end
  end
  publish(channel, message)
end

-- Publishes an event.
local function publish_more(event)
  publish_ours('x:log', cjson.encode(event))
end
