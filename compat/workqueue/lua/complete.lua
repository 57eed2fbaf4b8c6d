-- complete: complete an item, regardless of its lease, or only while a given lease holds it.
--
-- KEYS[1]  the item's data
-- KEYS[2]  the processing list
-- KEYS[3]  the item's lease
-- KEYS[4]  the item's old lease
-- KEYS[5]  the queue
-- ARGV     id, 1 to share the queue with old clients, and optionally the required lease
-- Returns  1 if this call completed the item, 0 if the item was gone or has another lease
-- Cost     3 commands, 4 with a lease, one linear in the processing list; with old clients one
--          more, linear in the queue, if the item is not in the processing list

if ARGV[3] and redis.call('get', KEYS[3]) ~= ARGV[3] then
  return 0
end
local listed = redis.call('lrem', KEYS[2], 0, ARGV[1])
if ARGV[2] == '1' and listed == 0 then
  -- An old client completes an item by removing the id from the processing list, and deletes the
  -- data a moment later. An id in neither list may be in that state.
  listed = redis.call('lrem', KEYS[5], 0, ARGV[1])
  if listed == 0 then
    return 0
  end
end
redis.call('del', KEYS[3], KEYS[4])
return redis.call('del', KEYS[1])
