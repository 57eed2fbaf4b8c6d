-- Putting one job, or many at once. Shared keys are written once. puts holds the jobs of one call,
-- and each step adds to it:
--
--   worker    the worker that puts the jobs
--   items     the jobs in the order of the call, which matters for dependencies. An item is
--             {queue, jid, klass, data, delay [, depends] [, given] [, more] [, priority] [,
--             retries] [, tags]}; given holds the options of the put by name, and more other fields
--             and values
--   groups    the same by queue
--   claiming  whether any claim unique keys
--   watching  whether any have a policy for failed dependencies
--   mortal    whether any have lifetimes
--   turns     a table if any have a fair share of their queue
--   batches   the batches with new members, by jid

-- Puts all jobs into queues or none, except for jobs put under a condition. Returns prepare's list
-- of jobs not put under their jid, or nil.
local function put(puts)
  local items, groups = puts.items, puts.groups
  must_publish()
  -- One command checks for existing jobs, idle workers, tracked jobs and empty queues: most puts
  -- find none. The list has room for one job at once, because growing a table is expensive.
  local keys = {idle_key(), prefix .. 'tracked', prefix .. 'x:empty', false}
  local plain, idle = #groups == 1 and not puts.claiming and not puts.batches, false
  for i = 1, #items do
    local item = items[i]
    local key = job_key(item.jid)
    item.key, keys[i + 3] = key, key
    if item.depends and #item.depends > 0 or item.delay > 0 and #items > 1 then
      plain = false
    end
  end
  local existing = count_existing(keys)
  local tracked, known_empty = false, false
  if existing > 0 then
    idle = call('exists', idle_key()) == 1
    existing = existing - (idle and 1 or 0)
    tracked = existing > 0 and call('exists', prefix .. 'tracked') == 1
    existing = existing - (tracked and 1 or 0)
    known_empty = existing > 0 and call('exists', prefix .. 'x:empty') == 1
    plain = plain and existing == (known_empty and 1 or 0)
  end
  local found
  if not plain then -- a plain put finds none of its jobs
    found = prepare(puts, existing == (known_empty and 1 or 0))
  end
  for g = 1, #groups do
    if groups[g][1] then
      write_all(puts, groups[g], idle, tracked, known_empty)
    end
  end
  if puts.watching or puts.batches then
    watch_all(puts)
  end
  if puts.mortal then
    enter_lives(items)
  end
  return found
end

-- Puts a job from the arguments, with the worker in ARGV[at]. Returns its jid, or the jid and the
-- state of the existing job found by prepare.
local function put_from_arguments(at)
  local queue = named('Queue', 'queue', ARGV[at + 1])
  local puts = new_puts(ARGV[at], false)
  puts.from, puts.to = at + 6, #ARGV
  local item = read_put(puts, queue, ARGV[at + 2], ARGV[at + 3], ARGV[at + 4], ARGV[at + 5])
  puts.items[1], puts.groups[1] = item, puts.items
  local left = put(puts)
  if left and left[1] then
    return {left[1][2], left[1][3]}
  end
  return item.jid
end
