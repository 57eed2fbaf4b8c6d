-- What the commands do in one way here, and in another one in the drop-in script: there,
-- dropin/surface.lua takes the place of this file.

-- @include "lib/events.lua"

-- An empty list in a reply.
local EMPTY_LIST = '[]'

-- 1 if all messages about jobs that are ready are marked, else 0.
local ALWAYS_MARKED = 1

-- How many dependencies a call removes at most that cancels or ends a job.
local MAX_UNLINKED = 1000

-- Publishes the name of a new queue.
local function publish_queue(queue)
  publish('x:queues', queue)
end

-- Publishes an event of which the scripts of other clients say nothing.
local function publish_more(event)
  publish('x:log', cjson.encode(event))
end
