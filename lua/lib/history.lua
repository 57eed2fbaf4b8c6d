-- The history of a job: a list of JSON entries [when, what, {details}].

-- Returns the text of an entry. The argument what is JSON, and details is JSON or nil.
local function entry(at, what, details)
  return '[' .. string.format('%d', at) .. ',' .. what .. (details and ',' .. details or '') .. ']'
end

-- Returns the maximum number of a job's entries; 0 or less means no limit.
local function history_cap(text)
  return finite(text, DEFAULT_MAX_JOB_HISTORY)
end

-- Trims a list longer than the cap to the first entry and the newest.
local function trim_history(key, length, cap) -- cold
  cap = cap or history_cap(try('hget', prefix .. 'config', 'max-job-history'))
  if cap > 0 and length > cap then
    local first = call('lindex', key, 0)
    call('ltrim', key, -math.max(cap - 1, 1), -1)
    call('lpush', key, first)
  end
end

-- Appends an entry to the history of the job with this key. Without the caller's cap, the setting
-- is read only when it may matter. Returns the server's reply.
local function record(key, text, cap)
  local length = try('rpush', key .. '-history', text)
  if length ~= 1 and length ~= 2 and type(length) == 'number' and (not cap or length > cap) then
    trim_history(key .. '-history', length, cap)
  end
  return length
end

-- Moves a stage of the old history, which may hold several entries.
local function move_stage(key, stage)
  local queue = cjson.encode({q = type(stage.q) == 'string' and stage.q or nil})
  try('rpush', key, entry(finite(stage.put, 0), '"put"', queue))
  local worker = cjson.encode({worker = type(stage.worker) == 'string' and stage.worker or nil})
  for _, what in ipairs({'popped', 'failed', 'done'}) do
    local at = finite(stage[what])
    if at then
      try('rpush', key, entry(at, '"' .. what .. '"', what == 'popped' and worker))
    end
  end
end

-- Moves a very old job's history from a field of the job to the list.
local function move_history(jid, text) -- cold
  local key = job_key(jid) .. '-history'
  if not may_write(key) then
    return
  end
  call('hdel', job_key(jid), 'history') -- first: it needs no memory
  for _, stage in ipairs(list_of(text)) do
    if type(stage) == 'table' then
      move_stage(key, stage)
    end
  end
end

-- Like move_history, for the field as read, false if missing.
local function adopt_history(jid, text)
  if text then
    move_history(jid, text)
  end
end

-- Like move_history, for a job that already has a new entry in the list. cap is as in record.
local function adopt_before(jid, text, recorded, cap) -- cold
  if type(text) == 'string' then
    try('rpop', job_key(jid) .. '-history')
    move_history(jid, text)
    record(job_key(jid), recorded, cap)
  end
end

local function unusual_entry(text) -- cold
  local item = list_of(text)
  local object = item[3]
  if type(object) ~= 'table' then
    object = {data = object}
  end
  object.when = item[1]
  object.what = item[2]
  local ok, encoded = pcall(cjson.encode, object)
  return ok and encoded or '{}'
end

-- Returns an entry as the object that clients read: {details, "when": , "what": }. Entries of the
-- usual shape are rearranged as text.
local function entry_object(text)
  local when, what, details = string.match(text, '^%[(%-?%d+),("[^"\\]*"),{(.+)}%]$')
  if when then
    return '{' .. details .. ',"when":' .. when .. ',"what":' .. what .. '}'
  end
  when, what = string.match(text, '^%[(%-?%d+),("[^"\\]*")%]$')
  if when then
    return '{"when":' .. when .. ',"what":' .. what .. '}'
  end
  return unusual_entry(text)
end

-- Returns the history as a JSON array. newest is the object of the last entry, if known.
local function history_json(jid, newest)
  local list = try('lrange', job_key(jid) .. '-history', '0', '-1')
  local n = #list
  if newest and n > 0 then
    list[n] = newest
    n = n - 1
  end
  for i = 1, n do
    local object = entry_object(list[i])
    list[i] = object
  end
  return joined(list)
end
