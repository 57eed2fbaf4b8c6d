-- Large data of jobs, returned to Go beside their JSON: encoding data as JSON takes ten times as
-- long as sending. A call sends limited amounts of data and JSON, and the caller asks for the rest.

-- The smallest size of large data, and the bytes of large data that a call may send.
local LARGE_DATA = 4096
local MAX_LARGE = 2097152

-- The large data in this call, or nil, and the size in bytes.
local large
local large_bytes = 0

-- Takes large data out of a job. Returns the member of the job's JSON that refers to it, or ''.
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

-- Reports whether another job may still be sent.
local function has_room(jid) -- cold
  if budget.text <= 0 then
    return false
  end
  local size = large_bytes > 0 and try('hstrlen', job_key(jid), 'data')
  return type(size) ~= 'number' or size < LARGE_DATA or large_bytes + size <= MAX_LARGE
end

-- Returns a reply with the large data and the rest, or the text alone if both are empty.
local function with_large(text, rest) -- cold
  return (large or rest ~= '') and {text, rest, unpack(large or none)} or text
end
