-- Searching a list for jobs of a klass, with a tag, with a text in the jid or the data, or for the
-- callbacks of batches.

-- Larger data is not shown, and searched only on request.
local LARGEST_DATA = 262144

-- Returns the character with a hexadecimal number of up to 65535, in UTF-8.
local function character(hex)
  local code = tonumber(hex, 16)
  if code < 128 then
    return string.char(code)
  end
  local last, rest = 128 + code % 64, math.floor(code / 64)
  if rest < 32 then
    return string.char(192 + rest, last)
  end
  return string.char(224 + math.floor(rest / 64), 128 + rest % 64, last)
end

-- Reads the filters in ARGV from an index on: klass, tag, text in the jid, text in the data, a
-- batch or not, whether to search large data, and the same again. Empty filters match everything.
local function read_filters(area, first, last)
  local filters = {}
  if (last - first + 1) % 6 ~= 0 or last > #ARGV then
    reject(area, 'Odd number of filter args')
  end
  for i = first, last, 6 do
    local data = not_empty(ARGV[i + 3])
    filters[#filters + 1] = {
      klass = not_empty(ARGV[i]), tag = not_empty(ARGV[i + 1]), jid = not_empty(ARGV[i + 2]),
      data = data, batch = not_empty(ARGV[i + 4]),
      large = ARGV[i + 5] ~= '',
    }
  end
  return filters
end

-- The maximum number of bytes of data that a call reads, the number read so far, and the number of
-- jobs passed over because of large data.
local MAX_SEARCHED = 2097152
local searched, too_large = 0, 0

-- Returns the data of the job with this key, except large data if only small data is wanted.
local function data_of(key, wants_large) -- cold
  local size = try('hstrlen', key, 'data')
  if type(size) ~= 'number' or size > LARGEST_DATA and not wants_large then
    too_large = too_large + 1
    return ''
  end
  searched = searched + size
  return try('hget', key, 'data')
end

-- Reports whether data contains a text, as stored or as people read it.
local function has_text(data, text)
  if type(data) ~= 'string' then
    return false
  elseif string.find(data, text, 1, true) then
    return true
  elseif not string.find(data, '\\', 1, true) then
    return false
  end
  searched = searched + 9 * #data
  local read = string.gsub(string.gsub(data, '\\u(%x%x%x%x)', character), '\\(["/])', '%1')
  return string.find(read, text, 1, true) ~= nil
end

-- Reports whether a job matches a filter.
local function matches(filter, key, jid)
  if filter.jid and not string.find(jid, filter.jid, 1, true) then
    return false
  end
  if filter.klass or filter.tag or filter.batch then
    local klass, tags, stored = unpack(try('hmget', key, 'klass', 'tags', 'x:o'))
    if filter.klass and klass ~= filter.klass
      or filter.tag and not set_of(names_of(tags), 1)[filter.tag]
      or filter.batch and not (stored and has_option(stored, BATCH)) then
      return false
    end
  end
  return not filter.data or has_text(data_of(key, filter.large), filter.data)
end

-- Reports whether a job in a list matches all filters. In a worker's list, lost jobs never match.
local function is_selected(list, filters, jid)
  local key = list.kind == 'recurring' and recur_key(jid) or job_key(jid)
  for i = 1, #filters do
    if not matches(filters[i], key, jid) then
      return false
    end
  end
  return list.kind ~= 'worker' or is_held(list.name, jid)
end

-- Examines count entries after a cursor, or fewer if their data is large. Returns the matching
-- jids, at most limit unless that is 0, the number of entries examined, and the next cursor, which
-- is empty at the end of the list.
local function search(area, list, cursor, count, limit, filters)
  local offset = after_cursor(area, list, cursor)
  local jids, found = bare_list(list, offset, count), {}
  for i = 1, #jids do
    if is_selected(list, filters, jids[i]) then
      found[#found + 1] = jids[i]
    end
    if i == count or #found == limit and limit > 0 or searched >= MAX_SEARCHED then
      return found, i, cursor_at(list, offset + i - 1, jids[i], score_in(list, jids[i]))
    end
  end
  return found, #jids, ''
end
