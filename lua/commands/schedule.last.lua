-- schedule.last: when a schedule was last due, and the current time. A new schedule counts as due
-- now, so its first job is the next one. Registers the calling worker as a follower.
--
-- Args     id [, worker, digest]
--          digest  of the worker's definition: the jobs and their times
-- Returns  {last, now, what}, as text; last is not after now, and what is '', 'register' if the
--          worker must register the schedule, or 'differs' if others follow another definition
-- Errors   Schedule.last()
-- Cost     6 commands, 2 more for a new schedule or worker
-- For      Go
-- Repeat   once

-- Notes that a worker follows the schedule. The registration of the last worker that began to
-- follow it is valid while it has followers.
local function note_follower(id, worker, digest)
  local key = follow_key(id)
  local since, _, before = read_follower(try('hget', key, worker))
  local registered, seen = unpack(try('hmget', schedule_key(id), 'digest', 'seen'))
  must_write()
  try('hset', key, worker, (since or stamp) .. ' ' .. stamp .. ' ' .. digest)
  try('expire', key, FOLLOWED)
  try('hset', schedule_key(id), 'seen', stamp)
  if math.floor(finite(seen, 0) / 60) ~= math.floor(now / 60) then
    drop_gone(id) -- once a minute, whoever looks
  end
  if registered == digest then
    return ''
  elseif before ~= digest or type(registered) ~= 'string' or not is_followed(id, registered) then
    return 'register'
  end
  return 'differs'
end

local id = required('Schedule.last', 'id', ARGV[3])
local worker = ARGV[4]
local digest = worker and named('Schedule.last', 'digest', ARGV[5])
local key = prefix .. 'x:schedules'
local last = finite(call('hget', key, id))
-- A time much later than now came from a clock that was ahead. If it is only a little later, the
-- server's own clock was set back, and the jobs put since then must not be put again.
if not last or last > now + 60 then
  call('hset', key, id, stamp)
  last = now
end
return {exact(math.min(last, now)), stamp, worker and note_follower(id, worker, digest) or ''}
