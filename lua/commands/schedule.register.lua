-- schedule.register: stores the definition of a schedule, replacing an earlier one.
--
-- Args     id, digest, spec, on_missed, queue, klass, jid, data, pairs
--          jid     of every job, or ''
--          data    of the jobs; '' with pairs '' if the schedule is too large to store
--          pairs   a JSON array: the options of the jobs, as for put
-- Returns  nil
-- Errors   Schedule.register()
-- Cost     6 commands, 1 for each worker that follows it no more
-- For      Go
-- Repeat   safe

local id = named('Schedule.register', 'id', ARGV[3])
local digest = named('Schedule.register', 'digest', ARGV[4])
local fields = {'spec', 'on_missed', 'queue', 'klass', 'only', 'data', 'pairs'}
local values = {'digest', digest}
for i = 1, #fields do
  add_pair(values, fields[i], required('Schedule.register', fields[i], ARGV[i + 4]))
end

call('zadd', prefix .. 'x:schedule-ids', 0, id)
local since = try('hget', schedule_key(id), 'since')
try('hset', schedule_key(id), 'since', type(since) == 'string' and since or stamp, unpack(values))
drop_gone(id)
