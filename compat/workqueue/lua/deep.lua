-- deep: requeue items neither leased nor in the queue, and add leased items in no list to the
-- processing list.
--
-- KEYS[1]  the queue
-- KEYS[2]  the processing list
-- ARGV     key prefixes of items, leases and old leases, 1 if the ids may be in no list, then ids
--          of items; a key that is not a string belongs to another queue
-- Returns  requeued ids
-- Cost     2 commands per id; 5 if it is not leased, two of them linear in the lists; 6 if it is
--          leased and in no list

-- A light cleaning will find the item after lease expiry. An item with an old lease may be
-- about to be completed: an old client removes it from the processing list first.
local function list(id)
  if redis.call('exists', ARGV[3] .. id) == 0
    and not redis.call('lpos', KEYS[1], id)
    and not redis.call('lpos', KEYS[2], id) then
    redis.call('lpush', KEYS[2], id)
  end
end

local function is_item(id)
  return redis.call('type', ARGV[1] .. id).ok == 'string'
end

local reset = {}
for i = 5, #ARGV do
  local id = ARGV[i]
  if redis.call('exists', ARGV[2] .. id, ARGV[3] .. id) > 0 then
    if ARGV[4] == '1' and is_item(id) then
      list(id)
    end
  elseif is_item(id) and not redis.call('lpos', KEYS[1], id) then
    redis.call('lrem', KEYS[2], 0, id)
    redis.call('lpush', KEYS[1], id)
    reset[#reset + 1] = id
  end
end
return reset
