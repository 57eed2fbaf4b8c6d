-- add: add an item, unless an item with the same id exists.
--
-- KEYS[1]  the item's data
-- KEYS[2]  the queue
-- ARGV     id, data
-- Returns  1 if it was added, 0 if the id exists
-- Cost     3 commands; 1 if the id exists

if redis.call('exists', KEYS[1]) == 1 then
  return 0
end
redis.call('lpush', KEYS[2], ARGV[1]) -- first, because it fails if the key is not a list
redis.call('set', KEYS[1], ARGV[2])
return 1
