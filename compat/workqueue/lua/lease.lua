-- lease: take the next item of the queue that nobody holds, or the one that was popped.
--
-- KEYS[1]  the queue
-- KEYS[2]  the processing list
-- ARGV     what keys of items, leases, and old leases begin with, session, seconds, 1 to
--          write an old lease too, and optionally the id that a blocking pop has moved
-- Returns  nil  the queue is empty
--          {}  ask again: there may be more
--          {id}  the next id has no data; it is in the processing list
--          {id, data}  the item, which is leased
-- Cost     4 commands, 3 more for each item that is held

local popped = ARGV[7]
for _ = 1, 100 do
  local id = popped
  if not id then
    id = redis.call('rpoplpush', KEYS[1], KEYS[2])
  elseif not redis.call('lpos', KEYS[2], id) then
    return {} -- a cleaner has put it back, or somebody has completed it
  end
  popped = nil
  if not id then
    return false
  end
  local data = redis.call('get', ARGV[1] .. id)
  if not data then
    return {id}
  end
  -- An item may be in the queue although somebody works on it: a cleaner saw it between pop
  -- and lease, or does not know this kind of lease. It is back where it belongs.
  if redis.call('exists', ARGV[2] .. id, ARGV[3] .. id) == 0 then
    redis.call('setex', ARGV[2] .. id, ARGV[5], ARGV[4])
    if ARGV[6] == '1' then
      redis.call('setex', ARGV[3] .. id, ARGV[5], ARGV[4])
    end
    return {id, data}
  end
end
return {}
