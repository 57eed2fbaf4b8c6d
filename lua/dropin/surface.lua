-- What the drop-in script does as qless-core's script does it, so that clients of other languages,
-- and their tests, can't tell them apart.

-- @include "lib/base.lua"
-- @include "lib/events.lua"

-- To Lua, an empty list is the same as an empty object, and cjson writes both like this.
local EMPTY_LIST = '{}'

-- Messages are marked only if a worker is woken.
local ALWAYS_MARKED = 0

-- A job is canceled by one call, however many others it waits for.
local MAX_UNLINKED = 1000000000

-- Publishes a message if somebody subscribes to its channel: a subscriber to a pattern of channels
-- would not expect it.
local function publish_if_heard(channel, message)
  local heard = try('pubsub', 'numsub', prefix .. channel)
  if heard.err or heard[2] > 0 then
    publish(channel, message)
  end
end

-- Publishes the name of a new queue.
local function publish_queue(queue)
  publish_if_heard('x:queues', queue)
end

-- Publishes an event of which the scripts of other clients say nothing.
local function publish_more(event)
  publish_if_heard('x:log', cjson.encode(event))
end
