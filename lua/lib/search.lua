-- Looking for jobs in a list: those of a klass, with a tag, with a text in their jid, or with one in
-- their data.

-- Data larger than this is neither searched nor shown.
local LARGEST_DATA = 262144

local function not_empty(text)
  return text and text ~= '' and text or nil
end

-- The filter that is in ARGV from an index on: klass, tag, text in the jid, text in the data. What is
-- empty is not asked for.
local function read_filter(first)
  return {
    klass = not_empty(ARGV[first]), tag = not_empty(ARGV[first + 1]), jid = not_empty(ARGV[first + 2]),
    data = not_empty(ARGV[first + 3]),
  }
end

-- How many bytes of data a call searches, or shows the beginning of, and how many it has read.
local MAX_SEARCHED = 2097152
local searched = 0

-- The data of the job with this key, unless it is very large.
local function data_of(key) -- cold
  local size = try('hstrlen', key, 'data')
  if type(size) ~= 'number' or size > LARGEST_DATA then
    return ''
  end
  searched = searched + size
  return try('hget', key, 'data')
end

local function has_name(list, name) -- cold
  for i = 1, #list do
    if list[i] == name then
      return true
    end
  end
  return false
end

-- Whether a job has what a filter asks for.
local function matches(filter, key, jid)
  if filter.jid and not string.find(jid, filter.jid, 1, true) then
    return false
  end
  if filter.klass or filter.tag then
    local job = try('hmget', key, 'klass', 'tags')
    if filter.klass and job[1] ~= filter.klass
      or filter.tag and not has_name(names_of(job[2]), filter.tag) then
      return false
    end
  end
  local data = filter.data and data_of(key)
  return not filter.data or type(data) == 'string' and string.find(data, filter.data, 1, true) ~= nil
end

-- At most count jids of a list, without their scores: to write those as text costs more than to
-- look at a jid.
local function bare_list(list, offset, count)
  local last = math.min(offset + count, list.total) - 1
  if last < offset then
    return {}
  elseif list.kind == 'failed' then
    return call('lrange', list.key, offset, last)
  elseif list.falls then
    return call('zrevrange', list.key, offset, last)
  end
  return call('zrange', list.key, list.from + offset, list.from + last)
end

-- The score of a jid in a list, or false in a failure group, which has none.
local function score_in(list, jid)
  return list.kind ~= 'failed' and call('zscore', list.key, jid)
end

-- Looks at a number of entries after a cursor, or fewer if their data is large. Returns the jids that
-- match, at most limit of them unless that is 0, their scores, how many were looked at, and the next
-- cursor, which is empty at the end of the list.
local function search(area, list, cursor, count, limit, filter)
  local offset = after_cursor(area, list, cursor)
  local jids = bare_list(list, offset, count)
  local found, theirs = {}, {}
  for i = 1, #jids do
    local jid = jids[i]
    if matches(filter, list.kind == 'recurring' and recur_key(jid) or job_key(jid), jid) then
      found[#found + 1], theirs[#theirs + 1] = jid, score_in(list, jid)
    end
    if i == count or #found == limit and limit > 0 or searched >= MAX_SEARCHED then
      return found, theirs, i, cursor_at(list, offset + i - 1, jid, score_in(list, jid))
    end
  end
  return found, theirs, #jids, ''
end
