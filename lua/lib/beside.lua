-- Large data of jobs, which Go gets beside their JSON: to write it as JSON takes ten times as long as to
-- send it. A call sends no more than some of it, and the caller asks for the rest.

-- @include "lib/base.lua"
-- @include "lib/jobs.lua"

-- From how many bytes on data is large, and how many bytes of it a call sends.
local LARGE_DATA = 4096
local MAX_LARGE = 2097152

-- The large data of this call, and how many bytes it has.
local large = {bytes = 0}

-- Takes large data out of a job. Returns the member of its JSON that says which it is, or ''.
local function set_beside(job) -- cold
  local data = job[DATA]
  if type(data) ~= 'string' or #data < LARGE_DATA then
    return ''
  end
  large[#large + 1] = data
  large.bytes, job[DATA] = large.bytes + #data, ''
  return ',"beside":' .. #large
end

-- How many of these jobs may still be sent, but at least one if none has been.
local function with_room(jids) -- cold
  local bytes = large.bytes
  for i = 1, #jids > 1 and #jids or 0 do
    local size = try('hstrlen', job_key(jids[i]), 'data')
    bytes = bytes + (type(size) == 'number' and size >= LARGE_DATA and size or 0)
    if bytes > MAX_LARGE and (i > 1 or large.bytes > 0) then
      return i - 1
    end
  end
  return #jids
end

-- A reply with large data, or without any and without a rest the text alone.
local function with_large(text, rest) -- cold
  if #large == 0 and rest == '' then
    return text
  end
  return {text, rest, unpack(large)}
end
