-- Behaviour for clients of other languages that is exactly that of qless-core's script, so that
-- they, and their tests, can't tell the scripts apart; Go has another.

-- How many dependencies a call removes at most that cancels or ends a job.
local function max_unlinked()
  return classic and 1000000000 or 1000
end

-- Publishes a message that the scripts of other clients do not have. A subscriber of theirs to a
-- pattern of channels would not expect it, so it is only published to subscribers of its own
-- channel.
local function publish_ours(channel, message)
  if classic then
    local heard = try('pubsub', 'numsub', prefix .. channel)
    if not heard.err and heard[2] == 0 then
      return
    end
  end
  publish(channel, message)
end

-- Publishes the name of a new queue.
local function publish_queue(queue)
  publish_ours('x:queues', queue)
end

-- Publishes an event.
local function publish_more(event)
  publish_ours('x:log', cjson.encode(event))
end
