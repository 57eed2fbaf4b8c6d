-- Large data of jobs, which Go gets beside their JSON, because writing it as JSON takes ten times
-- as long as sending it. A call sends limited amounts of data and JSON, and the caller asks for the
-- rest.

-- The bytes from which on data is large, and the bytes of it that a call sends.
local LARGE_DATA = 4096
local MAX_LARGE = 2097152

-- The large data of this call, if it has any, and its bytes.
local large
local large_bytes = 0

-- Takes large data out of a job. Returns the member of its JSON that names the data, or ''.
local function set_beside(job) -- cold
  local data = job[DATA]
  if type(data) ~= 'string' or #data < LARGE_DATA then
    return ''
  end
  large = large or {}
  large[#large + 1] = data
  large_bytes, job[DATA] = large_bytes + #data, ''
  return ',"beside":' .. #large
end

-- Whether another job may still be sent.
local function has_room(jid) -- cold
  if budget.text <= 0 then
    return false
  end
  local size = large_bytes > 0 and try('hstrlen', job_key(jid), 'data')
  return type(size) ~= 'number' or size < LARGE_DATA or large_bytes + size <= MAX_LARGE
end

-- A reply with large data, or without any and without a rest the text alone.
local function with_large(text, rest) -- cold
  if not large and rest == '' then
    return text
  end
  return {text, rest, unpack(large or none)}
end
