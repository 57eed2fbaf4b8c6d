-- light: requeue items with expired leases, and remove ids without data.
--
-- KEYS[1]  the queue
-- KEYS[2]  the processing list
-- ARGV     key prefixes of items, leases and old leases, then ids from the processing list
-- Returns  {requeued ids, removed ids}
-- Cost     1 command per id; 3 if its lease has ended, one of them linear in the processing
--          list

local reset, dropped = {}, {}
for i = 4, #ARGV do
  local id = ARGV[i]
  if redis.call('exists', ARGV[2] .. id, ARGV[3] .. id) == 0
    and redis.call('lrem', KEYS[2], 0, id) > 0 then -- otherwise another client was faster
    if redis.call('exists', ARGV[1] .. id) == 1 then
      redis.call('lpush', KEYS[1], id)
      reset[#reset + 1] = id
    else
      dropped[#dropped + 1] = id
    end
  end
end
return {reset, dropped}
