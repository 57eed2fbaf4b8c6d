-- queue.forget: removes queues from the list of known queues, with their histories.
--
-- Args     queue...; after '' only queues without jobs: workers that follow a pattern find no jobs
--          in a forgotten queue
-- Returns  nil
-- Errors   Queue.forget() when none is named, or one has jobs after ''
-- Cost     3 commands for each, 8 after ''
-- For      classic
-- Repeat   safe

-- Fails if a queue has jobs, recurring ones included.
local function must_be_empty(queue)
  local count = 0
  for _, part in ipairs({'work', 'locks', 'scheduled', 'depends', 'recur'}) do
    count = count + call('zcard', queue_key(queue, part))
  end
  if count > 0 then
    local noun = count == 1 and ' job' or ' jobs'
    reject('Queue.forget', 'Queue ' .. queue .. ' has ' .. count .. noun)
  end
end

local empty = ARGV[3] == ''
local first = empty and 4 or 3
required('Queue.forget', 'queue', ARGV[first])
for i = first, empty and #ARGV or 0 do
  must_be_empty(ARGV[i])
end
for i = first, #ARGV do
  call('zrem', prefix .. 'queues', ARGV[i])
  try('zrem', prefix .. 'x:queues', ARGV[i])
  try('del', past_key(ARGV[i]))
end
