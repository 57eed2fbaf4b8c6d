-- release: requeue an item as the next item.
--
-- KEYS[1]  the item's data
-- KEYS[2]  the processing list
-- KEYS[3]  the item's lease
-- KEYS[4]  the item's old lease
-- KEYS[5]  the queue
-- ARGV     id, the beginning of the lease, '' for an item not leased yet
-- Returns  1 if requeued, 0 if held by another lease or not in the processing list
-- Cost     6 commands, one linear in the processing list

local other = redis.call('get', KEYS[4]) or ''
local holder = redis.call('get', KEYS[3]) or ''
if holder:sub(1, #ARGV[2]) ~= ARGV[2] or (ARGV[2] == '' and holder ~= '') then
  return 0
end
if ARGV[2] ~= '' then
  redis.call('del', KEYS[3])
end
if other ~= '' and other == holder then
  redis.call('del', KEYS[4])
elseif other ~= '' then
  return 0 -- an old client has leased it, too
end
if redis.call('exists', KEYS[1]) == 0 or redis.call('lrem', KEYS[2], 0, ARGV[1]) == 0 then
  return 0
end
redis.call('rpush', KEYS[5], ARGV[1])
return 1
