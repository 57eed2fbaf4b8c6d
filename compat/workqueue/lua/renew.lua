-- renew: restart the lease of an item, even an expired one, unless another worker took the item.
--
-- KEYS[1]  the item's data
-- KEYS[2]  the processing list
-- KEYS[3]  the item's lease
-- KEYS[4]  the item's old lease
-- ARGV     id, the beginning of the lease, seconds, 1 to write the old lease too, the lease to
--          write after lease expiry
-- Returns  1 if the lease holds the item, else 0
-- Cost     4 commands; one more, linear in the processing list, if the lease had ended

local function ours(lease)
  return lease and lease:sub(1, #ARGV[2]) == ARGV[2]
end

local holder = redis.call('get', KEYS[3])
local other = redis.call('get', KEYS[4])
if redis.call('exists', KEYS[1]) == 0 then
  return 0
end
if ours(holder) then
  redis.call('expire', KEYS[3], ARGV[3]) -- works even if the server is out of memory
else
  -- The expired lease is restored only if nothing has happened to the item since.
  if holder or (other and not ours(other)) or not redis.call('lpos', KEYS[2], ARGV[1]) then
    return 0
  end
  holder = ARGV[5]
  redis.call('setex', KEYS[3], ARGV[3], holder)
end
if ARGV[4] == '1' then
  if other == holder then
    redis.call('expire', KEYS[4], ARGV[3])
  else
    redis.call('setex', KEYS[4], ARGV[3], holder)
  end
end
return 1
