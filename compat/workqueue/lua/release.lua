-- release: put an item back, where it is the next.
--
-- KEYS[1]  the item's data
-- KEYS[2]  the processing list
-- KEYS[3]  its lease
-- KEYS[4]  its old lease
-- KEYS[5]  the queue
-- ARGV     id, session; an empty one for an item that nobody has leased yet
-- Returns  1 when it was put back, 0 when it is not the session's, or not in the processing list
-- Cost     6 commands, one of them as long as the processing list

local other = redis.call('get', KEYS[4]) or ''
if (redis.call('get', KEYS[3]) or '') ~= ARGV[2] then
  return 0
end
if ARGV[2] ~= '' then
  redis.call('del', KEYS[3])
end
if other == ARGV[2] then
  redis.call('del', KEYS[4])
elseif other ~= '' then
  return 0 -- somebody else works on it, too
end
if redis.call('exists', KEYS[1]) == 0 or redis.call('lrem', KEYS[2], 0, ARGV[1]) == 0 then
  return 0
end
redis.call('rpush', KEYS[5], ARGV[1])
return 1
