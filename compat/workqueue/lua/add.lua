-- add: a new item, unless there is one with the id.
--
-- KEYS[1]  the item's data
-- KEYS[2]  the queue
-- ARGV     id, data
-- Returns  1 when it was added, 0 when there is one
-- Cost     3 commands; 1 when there is one

if redis.call('exists', KEYS[1]) == 1 then
  return 0
end
redis.call('lpush', KEYS[2], ARGV[1]) -- first, for it fails if the key is not a list
redis.call('set', KEYS[1], ARGV[2])
return 1
