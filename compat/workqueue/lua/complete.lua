-- complete: complete an item, no matter which session holds it.
--
-- KEYS[1]  the item's data
-- KEYS[2]  the processing list
-- KEYS[3]  its lease
-- KEYS[4]  its old lease
-- KEYS[5]  the queue
-- ARGV     id, 1 to share the queue with old clients
-- Returns  1 if this call completed it, 0 if the item no longer existed
-- Cost     3 commands, one linear in the processing list; with old clients one more, linear in
--          the queue, if the item is not in the processing list

local listed = redis.call('lrem', KEYS[2], 0, ARGV[1])
if ARGV[2] == '1' and listed == 0 then
  -- An old client completes an item by removing the id from the processing list, and deletes
  -- the data a moment later. An id that is in neither list may be in that state.
  listed = redis.call('lrem', KEYS[5], 0, ARGV[1])
  if listed == 0 then
    return 0
  end
end
redis.call('del', KEYS[3], KEYS[4])
return redis.call('del', KEYS[1])
