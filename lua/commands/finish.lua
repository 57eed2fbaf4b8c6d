-- finish: completes, fails, retries or releases many jobs of a worker. Each has its own outcome: a
-- refused one does not affect the others.
--
-- Args     worker, then for each job, at most 1000: action, jid, queue, data, n, and n arguments
--          that are pairs; or, for plain completions in one queue: completed, queue, n, and n jids
--          complete  next queue, delay n, depends json, priority n, retries n, tags json, o text,
--                    drop letters, result json
--          fail      group, message, result json
--          retry     uses up a retry: delay n, group, message; result json, kept if the job fails
--                    because it has no retries left
--          release   uses up none: delay n; place n: the order of released jobs without a delay,
--                    after those without a place; throttled json: limits to hold for the delay, all
--                    of the job's if the list is empty
--          all       since: the time at which the run began, as returned by reserve. An outcome of
--                    an earlier run is refused
--          data ''   leaves the job's data unchanged
-- Returns  an array with a text for each job: the new state after complete, the remaining retries
--          after retry, or '!' and the problem, in the format of text_of. A text ends in '+' when
--          sweep must still release or notify dependents. Empty if all jobs were named by
--          completed, and are complete
-- Errors   Finish(); nothing is written then
-- Cost     of n completed 9 commands and 4 for each, else as the single commands
-- For      Go
-- Repeat   once
-- Hot

local worker = required('Finish', 'worker', ARGV[3])
if ARGV[4] == 'completed' and ARGV[6] == '1' and #ARGV == 7 then
  local is_done = complete_one(worker, ARGV[7], ARGV[5], '', nil)
  if is_done then
    return {}
  end
end

-- Reads the job whose arguments begin at ARGV[at]. Returns it, and the index of the next one. The
-- fields of most jobs are named at once, because growing a table is expensive: not as nil, which
-- takes up room without existing.
local function read_item(at)
  local jid = required('Finish', 'jid', ARGV[at + 1])
  local queue = required('Finish', 'queue', ARGV[at + 2])
  local item = {
    jid = jid, queue = queue, data = ARGV[at + 3],
    key = false, retries = false, began = false, state = false,
  }
  if item.data ~= '' then
    json('Finish', 'data', item.data)
  end
  local first = at + 5
  if ARGV[at] == 'complete' and ARGV[at + 4] == '0' then
    return item, first
  end
  local last = first + whole('Finish', 'n', ARGV[at + 4]) - 1
  read_outcome(item, ARGV[at], first, last)
  return item, last + 1
end

local items, completed, brief = {}, 0, true
local at, n = 4, 0
while at <= #ARGV do
  if ARGV[at] == 'completed' then
    local queue, last = required('Finish', 'queue', ARGV[at + 1]), at + 2
    last = last + whole('Finish', 'n', ARGV[last])
    for i = at + 3, last do
      n, completed = n + 1, completed + 1
      items[n] = {
        jid = required('Finish', 'jid', ARGV[i]), queue = queue, data = '',
        key = false, retries = false, began = false, state = false,
      }
    end
    at = last + 1
  else
    n, brief = n + 1, false
    items[n], at = read_item(at)
    if not items[n].action then
      completed = completed + 1
    end
  end
end
if n > 1000 then
  reject('Finish', 'More than 1000 jobs')
end
must_publish()
budget.releases = math.max(RELEASED, n)
if completed == n then
  complete(worker, items)
else
  complete(worker, without(items, 'action'))
  give_each(worker, items)
end
local outcomes = sized(items)
for i = 1, n do
  local item = items[i]
  if item.problem then
    outcomes[i] = '!' .. text_of(item.problem)
  else
    outcomes[i] = item.state or tostring(item.remaining)
  end
  brief = brief and item.state == 'complete'
end
return brief and none or outcomes
