-- latency: how long the oldest jobs of queues have waited, by priority. Changes nothing: due jobs
-- count where they are.
--
-- Args     queue...
-- Returns  JSON, for each queue: {bands: [{priority, waited}, ...], next [, more]}: at most 16
--          priorities, the highest first; next, when the first scheduled or recurring job falls due
--          or fell due, if there is one; more, if there are further priorities
-- Errors   Latency() when none is named
-- Cost     3 commands a queue, 4 a priority, 1 a due job, 2 to 10 for jobs that were timed out
-- For      Go
-- Repeat   safe

local function latency(queue)
  local bands = {}
  local more = add_waiting(bands, queue)
  local scheduled, recur = add_due(bands, queue, 'scheduled'), add_due(bands, queue, 'recur')
  table.sort(bands, function(a, b)
    return a.priority > b.priority
  end)
  for i = 1, #bands do
    bands[i] = '{"priority":' .. exact(bands[i].priority) .. ',"waited":' ..
      exact(bands[i].waited) .. '}'
  end
  local next_due = math.min(scheduled or math.huge, recur or math.huge)
  return '{"bands":' .. joined(bands) .. (next_due < math.huge and
    ',"next":' .. exact(next_due) or '') .. (more and ',"more":true' or '') .. '}'
end

named('Latency', 'queue', ARGV[3])
local found = {}
for i = 3, #ARGV do
  found[i - 2] = latency(ARGV[i])
end
return joined(found)
