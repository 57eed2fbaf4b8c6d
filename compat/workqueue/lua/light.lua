-- light: put items back whose leases have ended, and take away ids without data.
--
-- KEYS[1]  the queue
-- KEYS[2]  the processing list
-- ARGV     what keys of items, leases, and old leases begin with, ids from the processing list
-- Returns  {ids that were put back, ids that were taken away}
-- Cost     1 command for an id; 3 when its lease has ended, one of them as long as the
--          processing list

local reset, dropped = {}, {}
for i = 4, #ARGV do
  local id = ARGV[i]
  if redis.call('exists', ARGV[2] .. id, ARGV[3] .. id) == 0
    and redis.call('lrem', KEYS[2], 0, id) > 0 then -- else somebody was quicker
    if redis.call('exists', ARGV[1] .. id) == 1 then
      redis.call('lpush', KEYS[1], id)
      reset[#reset + 1] = id
    else
      dropped[#dropped + 1] = id
    end
  end
end
return {reset, dropped}
