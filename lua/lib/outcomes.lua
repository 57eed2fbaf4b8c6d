-- The outcomes received by finish, other than plain completion.

-- Reads the pairs of an action, from ARGV[first] to ARGV[last]. Jobs to complete have no action.
local function read_outcome(item, action, first, last) -- cold
  local given = options('Finish', first, last)
  item.action, item.since, item.result =
    action ~= 'complete' and action or nil, given.since, given.result
  item.delay = number('Finish', 'delay', given.delay or 0)
  if action == 'complete' then
    item.next, item.checked = given.next, true
    item.depends, item.change =
      read_dependencies('Finish', given.depends), read_change('Finish', given)
  elseif action == 'fail' then
    item.group, item.message = required('Finish', 'group', given.group), given.message or ''
  elseif action == 'retry' then
    item.group, item.message = given.group, given.message
  elseif action == 'release' then
    item.place = whole('Finish', 'place', given.place or 0)
    item.throttled = given.throttled and names('Finish', 'throttled', given.throttled)
  else
    reject('Finish', 'Unknown action "' .. tostring(action) .. '"')
  end
  if item.result then
    json('Finish', 'result', item.result)
  end
end

-- Fails, retries or releases each of the items.
local function give_each(worker, items) -- cold
  for i = 1, #items do
    local item = items[i]
    if item.action == 'fail' then
      item.problem = fail(worker, item)
    elseif item.action == 'retry' then
      item.here = true
      item.problem = retry(worker, item)
    elseif item.action == 'release' then
      item.problem = release(worker, item)
    end
    if budget.tells <= 0 and item.action and not item.problem then
      item.state = tostring(item.remaining) .. '+'
    end
  end
end
