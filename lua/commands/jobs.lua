-- jobs: the jids of the jobs in a state.
--
-- Args     'complete' [, offset, count], or 'complete', queue [, offset, count]; or running,
--          stalled, scheduled, depends, recurring or waiting, queue [, offset, count]: a count of
--          -1 means all running, stalled or recurring jobs
--          'complete' with three arguments, or with a queue first, is for clients in PHP: all
--          complete jobs if the queue is '', else the queue's jobs among the last 1000
-- Returns  an array of jids
-- Errors   Jobs()
-- Cost     1 command; scheduled: 3 for each due job, at most 1000; complete of a queue: 1 a job
-- For      classic
-- Repeat   safe

-- The maximum number of due jobs that a call moves. Others are left out.
local MAX_MOVED = 1000

-- The number of completed jobs that are searched for the jobs of a queue.
local MAX_LOOKED_UP = 1000

-- Reads offset and count, from ARGV[first] on.
local function page(first)
  return integer('Jobs', 'offset', ARGV[first] or 0),
    integer('Jobs', 'count', ARGV[first + 1] or 25)
end

-- The queue that the arguments of complete name, or nil. A single one must be a known queue.
local function names_queue()
  local first = ARGV[4]
  if #ARGV >= 6 or first == '' then
    return first
  elseif first and not finite(first) and (call('zscore', prefix .. 'queues', first)
    or try('zscore', prefix .. 'x:queues', first)) then
    return first
  end
end

-- The queue of the last put among some entries of a history, or nil.
local function last_put(entries)
  for i = #entries, 1, -1 do
    local happened = list_of(entries[i])
    if happened[2] == 'put' and type(happened[3]) == 'table' then
      return happened[3].q or happened[3].queue -- reqless says queue
    end
  end
end

-- The queue that a complete job was in. The last entries of its history nearly always suffice.
local function queue_of(jid)
  local history = job_key(jid) .. '-history'
  return last_put(try('lrange', history, -4, -1)) or last_put(try('lrange', history, 0, -1))
end

-- A page of the jobs that were completed in a queue, latest first.
local function completed_in(queue, offset, count)
  local found, skip = {}, math.max(0, offset)
  for first = 0, MAX_LOOKED_UP - 1, 100 do
    local jids = call('zrevrange', prefix .. 'completed', first, first + 99)
    for i = 1, #jids do
      if #found >= count then
        return found
      elseif queue_of(jids[i]) == queue then
        if skip > 0 then
          skip = skip - 1
        else
          found[#found + 1] = jids[i]
        end
      end
    end
  end
  return found
end

local state = required('Jobs', 'state', ARGV[3])
if state == 'complete' then
  local theirs = names_queue()
  local offset, count = page(theirs and 5 or 4)
  if theirs and theirs ~= '' then
    return completed_in(theirs, offset, count)
  end
  return call('zrevrange', prefix .. 'completed', offset, offset + count - 1)
end

local queue = required('Jobs', 'queue', ARGV[4])
local offset, count = page(5)
local last = offset + count - 1
if state == 'waiting' then
  return count == 0 and {} or call('zrevrange', queue_key(queue, 'work'), offset, last)
elseif state == 'running' then
  return call('zrangebyscore', queue_key(queue, 'locks'), stamp, '+inf', 'LIMIT', offset, count)
elseif state == 'stalled' then
  return call('zrangebyscore', queue_key(queue, 'locks'), '-inf', stamp, 'LIMIT', offset, count)
elseif state == 'scheduled' then
  local key, due = queue_key(queue, 'scheduled'), 0
  if is_due(queue, 'scheduled') then
    bring_due(queue, false, true, MAX_MOVED)
    due = call('zcount', key, 0, stamp)
  end
  if offset >= 0 and last >= 0 then
    offset, last = offset + due, last + due
  end
  return call('zrange', key, offset, last)
elseif state == 'depends' then
  return call('zrange', queue_key(queue, 'depends'), offset, last)
elseif state == 'recurring' then
  return call('zrangebyscore', queue_key(queue, 'recur'), 0, '+inf', 'LIMIT', offset, count)
end
reject('Jobs', 'Unknown type "' .. state .. '"')
