-- complete: completes a worker's job, or moves it to its next queue.
--
-- Args     jid, worker, queue, data, then pairs:
--          since    a time: only if this run began then
--          result   json
--          next     the next queue, with delay n, depends json, priority n, retries n, tags json,
--                   o text, and drop letters; o and drop as in put
--          checked  1: the caller has validated the data as JSON, and no delay means none
-- Returns  the new state: 'complete', 'waiting', 'scheduled' or 'depends'; if checked, 'complete+'
--          when sweep must still release some dependents
-- Errors   Complete() when the job is not this worker's, not running, or runs in another queue
-- Cost     13 commands, 3 more for each dependent, of which it releases 250 if checked, else all
-- For      classic
-- Repeat   once
-- Hot
-- Library  stop_all_limited

local jid = required('Job', 'jid', ARGV[3])
local worker = required('Complete', 'worker', ARGV[4])
local queue = required('Complete', 'queue', ARGV[5])
local data = ARGV[6]
if ARGV[7] == 'checked' and (#ARGV == 8 or #ARGV == 10 and ARGV[9] == 'since') then
  local is_done = complete_one(worker, jid, queue, data, ARGV[10])
  if is_done then
    return 'complete'
  end
end
local given = options('Complete', 7, #ARGV)
if not given.checked then
  json('Complete', 'data', data)
  if given.result then
    given.result = strict_json('Complete', 'result', given.result)
  end
end
if not given.next and (given.delay or given.depends) then
  local option = given.delay and 'delay' or 'depends'
  reject('Complete', '"' .. option .. '" cannot be used without a "next".')
end
local change = read_change('Complete', given)
if change and not given.next then
  reject('Complete', '"priority", "retries", "tags", "o" and "drop" need a "next"')
end

local item = {
  jid = jid, queue = queue, data = data, next = given.next, change = change,
  depends = given.depends and read_dependencies('Complete', given.depends) or none,
  delay = given.delay and number('Complete', 'delay', given.delay) or 0,
  checked = given.checked, since = given.since or false,
  key = false, retries = false, began = false, state = false,
}
if given.result then
  item.result = given.result -- seldom, and growing a table is expensive
end
must_publish()
if given.checked then
  budget.releases = RELEASED
end
complete(worker, {item})
raise_any('Complete', item.problem)
return item.state
