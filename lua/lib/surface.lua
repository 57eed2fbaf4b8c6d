-- Behavior for clients in other languages that matches qless-core's script exactly, so that they,
-- and their tests, can't tell the scripts apart. For Go, it is different.

-- The maximum number of dependencies that a call removes to cancel or end a job.
local function max_unlinked()
  return classic and 1000000000 or 1000
end

-- Publishes a message that the scripts of other clients do not have. Their subscribers to patterns
-- of channels would not expect it, so it is published only to subscribers of its exact channel.
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
