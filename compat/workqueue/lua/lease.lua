-- lease: lease the next item without a lease, or the popped item.
--
-- KEYS[1]  the queue
-- KEYS[2]  the processing list
-- ARGV     key prefixes of items, leases and old leases, lease, seconds, 1 to write an old
--          lease too, and optionally the id moved by a blocking pop
-- Returns  nil  the queue is empty
--          {}  call again: more items may be left
--          {id}  the next id has no data; it is in the processing list
--          {id, data}  the item, now leased
-- Cost     4 commands, 3 more for each item that is already leased

local popped = ARGV[7]
for _ = 1, 100 do
  local id = popped
  if not id then
    id = redis.call('rpoplpush', KEYS[1], KEYS[2])
  elseif not redis.call('lpos', KEYS[2], id) then
    return {} -- a cleaner requeued it, or a client completed it
  end
  popped = nil
  if not id then
    return false
  end
  local data = redis.call('get', ARGV[1] .. id)
  if not data then
    return {id}
  end
  -- A leased item may be in the queue: a cleaner saw it between pop and lease, or does not
  -- know this kind of lease. It has now been moved back to the processing list.
  if redis.call('exists', ARGV[2] .. id, ARGV[3] .. id) == 0 then
    redis.call('setex', ARGV[2] .. id, ARGV[5], ARGV[4])
    if ARGV[6] == '1' then
      redis.call('setex', ARGV[3] .. id, ARGV[5], ARGV[4])
    end
    return {id, data}
  end
end
return {}
