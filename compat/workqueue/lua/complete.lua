-- complete: end an item, whoever holds it.
--
-- KEYS[1]  the item's data
-- KEYS[2]  the processing list
-- KEYS[3]  its lease
-- KEYS[4]  its old lease
-- KEYS[5]  the queue
-- ARGV     id, 1 to share the queue with old clients
-- Returns  1 when this completed it, 0 when there was no such item any more
-- Cost     3 commands, one of them as long as the processing list; with old clients one more,
--          as long as the queue, when the item is not in that list

local listed = redis.call('lrem', KEYS[2], 0, ARGV[1])
if ARGV[2] == '1' and listed == 0 then
  -- To an old client whoever takes the id out of the processing list is the first, and
  -- deletes the data a moment later. So an id in neither list may be just that.
  listed = redis.call('lrem', KEYS[5], 0, ARGV[1])
  if listed == 0 then
    return 0
  end
end
redis.call('del', KEYS[3], KEYS[4])
return redis.call('del', KEYS[1])
