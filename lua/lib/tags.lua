-- Tags: the jobs of each tag, and their number. A counter changes only with its set.

local function add_tags(jid, tags, first) -- cold
  for i = first, #tags do
    if try('zadd', prefix .. 't:' .. tags[i], stamp, jid) == 1 then
      try('zincrby', prefix .. 'tags', 1, tags[i])
    end
  end
end

local function remove_tags(jid, tags, first)
  for i = first, #tags do
    if try('zrem', prefix .. 't:' .. tags[i], jid) == 1
      and finite(try('zincrby', prefix .. 'tags', -1, tags[i]), 1) <= 0 then
      call('zrem', prefix .. 'tags', tags[i])
    end
  end
end

-- Changes the tags of the recurring job ARGV[3] by the tags from ARGV[4] on, with union or
-- difference. Returns the new tags as JSON.
local function change_recurring_tags(area, change) -- cold
  local key = recur_key(required('Recurring', 'jid', ARGV[3]))
  local tags = call('hget', key, 'tags')
  if not tags then
    raise(area, no_job(ARGV[3]))
  end
  local text = array(change(names_of(tags), ARGV, 4))
  call('hset', key, 'tags', text)
  return text
end

-- Adds names from list[first] on to the stored tags of a job, or removes them. Returns the new tags
-- as JSON for the caller to store.
local function change_tags(jid, stored, adds, list, first) -- cold
  local tags = names_of(stored)
  if adds then
    local known = #tags
    tags = union(tags, list, first)
    add_tags(jid, tags, known + 1)
  else
    tags = difference(tags, list, first)
    remove_tags(jid, list, first)
  end
  return array(tags)
end
