-- deep: requeue items that are neither leased nor in the queue.
--
-- KEYS[1]  the queue
-- KEYS[2]  the processing list
-- ARGV     key prefixes of items, leases and old leases, then ids of items; a key that is not a
--          string is no item, but one of another queue
-- Returns  ids that were requeued
-- Cost     2 commands per id; 5 if it is not leased, two of them linear in the lists

local reset = {}
for i = 4, #ARGV do
  local id = ARGV[i]
  if redis.call('exists', ARGV[2] .. id, ARGV[3] .. id) == 0
    and redis.call('type', ARGV[1] .. id).ok == 'string'
    and not redis.call('lpos', KEYS[1], id) then
    redis.call('lrem', KEYS[2], 0, id)
    redis.call('lpush', KEYS[1], id)
    reset[#reset + 1] = id
  end
end
return reset
