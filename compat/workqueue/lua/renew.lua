-- renew: restart a lease, if the session holds it or no session does.
--
-- KEYS[1]  the item's data
-- KEYS[2]  the processing list
-- KEYS[3]  its lease
-- KEYS[4]  its old lease
-- ARGV     id, session, seconds, 1 to write the old lease too
-- Returns  1 if the session holds it, else 0
-- Cost     4 commands; one more, linear in the processing list, if the lease had ended

local holder = redis.call('get', KEYS[3])
local other = redis.call('get', KEYS[4])
if redis.call('exists', KEYS[1]) == 0 then
  return 0
end
if holder ~= ARGV[2] then
  -- It has ended, and is restored only if nothing has happened to the item since.
  if holder or (other and other ~= ARGV[2]) or not redis.call('lpos', KEYS[2], ARGV[1]) then
    return 0
  end
end
redis.call('setex', KEYS[3], ARGV[3], ARGV[2])
if ARGV[4] == '1' then
  redis.call('setex', KEYS[4], ARGV[3], ARGV[2])
end
return 1
