-- put.many: puts many jobs into queues.
--
-- Args     worker, checked, then for each job, at most 1000: queue, jid, klass, data, delay, n, and
--          n arguments: the other pairs of put. The last jobs may share all but jid and data: '',
--          queue, klass, delay, n, n arguments, then jid and data of each
--          checked   '1': the caller has validated all JSON; 'new': also, all jids are fresh and
--                    random; 'once': also, no job may be put twice (lib/receipts.lua); or ''
-- Returns  nil, or an array with an array for each put that left a job alone or replaced one: its
--          index from 0, and the two values returned by put. The state is "put" for a job that an
--          earlier call with 'once' has put
-- Errors   Queue(), Put(); nothing is written then
-- Cost     of new jobs: 3 commands a queue, and 3 for each, 3 more for each tag or dependency
-- For      Go
-- Repeat   once, unless new
-- Waits    for replicas
-- Hot

local once, several, seen = ARGV[4] == 'once', false, {}
local puts = new_puts(ARGV[3], ARGV[4] ~= '' and (once and '1' or ARGV[4]))
local items = puts.items
local at, n = 5, 0

-- Adds a job to put.
local function add(queue, jid, klass, data, delay)
  local item = read_put(puts, queue, jid, klass, data, delay)
  if seen[jid] then
    raise('Put', named_twice(jid))
  end
  n = n + 1
  items[n], seen[jid] = item, true
end

-- The index of the last of the n arguments whose number is in ARGV[i].
local function end_of(i)
  return ARGV[i] == '0' and i or i + whole('Put', 'n', ARGV[i])
end

while at <= #ARGV do
  local agree = ARGV[at] == ''
  if agree then
    at = at + 1
  end
  local queue = ARGV[at]
  if n == 0 or queue ~= items[n].queue then
    queue = named('Queue', 'queue', queue)
    several = n > 0 or several
  end
  if agree then
    local klass, delay = ARGV[at + 1], ARGV[at + 2]
    puts.from, puts.to = at + 4, end_of(at + 3)
    for i = puts.to + 1, #ARGV, 2 do
      add(queue, ARGV[i], klass, ARGV[i + 1], delay)
    end
    at = #ARGV + 1
  else
    puts.from, puts.to = at + 6, end_of(at + 5)
    add(queue, ARGV[at + 1], ARGV[at + 2], ARGV[at + 3], ARGV[at + 4])
    at = puts.to + 1
  end
end
if n > 1000 then
  reject('Put', 'More than 1000 jobs')
end
if n > 0 then
  puts.groups = several and group_by_queue(items) or {items}
  local left = once and put_once(puts) or not once and put(puts)
  if left and left[1] then
    return left
  end
end
