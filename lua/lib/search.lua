-- Searching a list for jobs of a klass, with a tag, with a text in their jid or in their data, or
-- for the callbacks of batches.

-- Data larger than this is not shown, and searched only on request.
local LARGEST_DATA = 262144

local function not_empty(text)
  return text and text ~= '' and text or nil
end

-- The character with a number of up to 65535, in hexadecimal digits, in UTF-8.
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

-- The filters in ARGV from an index on: klass, tag, text in the jid, text in the data, whether it
-- is a batch, whether large data is searched, and the same again. Empty ones match everything.
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

-- The maximum number of bytes of data that a call reads, the number that it has read, and how many
-- jobs it has passed over because of their large data.
local MAX_SEARCHED = 2097152
local searched, too_large = 0, 0

-- The data of the job with this key, unless it is large and only small data is wanted.
local function data_of(key, wants_large) -- cold
  local size = try('hstrlen', key, 'data')
  if type(size) ~= 'number' or size > LARGEST_DATA and not wants_large then
    too_large = too_large + 1
    return ''
  end
  searched = searched + size
  return try('hget', key, 'data')
end

-- Whether data has a text, as it is stored or as people read it.
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

-- Whether a job matches a filter.
local function matches(filter, key, jid)
  if filter.jid and not string.find(jid, filter.jid, 1, true) then
    return false
  end
  if filter.klass or filter.tag then
    local klass, tags = unpack(try('hmget', key, 'klass', 'tags'))
    if filter.klass and klass ~= filter.klass
      or filter.tag and not set_of(names_of(tags), 1)[filter.tag] then
      return false
    end
  end
  if filter.batch and not is_batch(unpack(try('hmget', key, 'x:o'))) then
    return false
  end
  return not filter.data or has_text(data_of(key, filter.large), filter.data)
end

-- Whether a job of a list matches all filters. A job that a worker has lost is not in the worker's
-- list.
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
-- jids, at most limit of them unless that is 0, the number of examined entries, and the next
-- cursor, which is empty at the end of the list.
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
