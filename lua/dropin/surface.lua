-- What the drop-in script does as qless-core's script does it, so that clients of other languages,
-- and their tests, can't tell them apart.

-- @include "lib/base.lua"
-- @include "lib/events.lua"

-- To Lua, an empty list is the same as an empty object, and cjson writes both like this.
local EMPTY_LIST = '{}'

-- Messages are marked only if a worker is woken.
local ALWAYS_MARKED = 0

-- Publishes the name of a new queue if somebody subscribes to that: a subscriber to a pattern of
-- channels would not expect it.
local function publish_queue(queue)
  local heard = try('pubsub', 'numsub', prefix .. 'x:queues')
  if heard.err or heard[2] > 0 then
    publish('x:queues', queue)
  end
end
