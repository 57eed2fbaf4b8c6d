-- Large data of jobs, which Go gets beside their JSON: to write it as JSON takes ten times as long as to
-- send it. A call sends no more than some of it, and the caller asks for the rest.

-- @include "lib/base.lua"
-- @include "lib/jobs.lua"

-- From how many bytes on data is large, and how many bytes of it a call sends. A byte of JSON
-- counts as several.
local LARGE_DATA = 4096
local MAX_LARGE = 2097152
local JSON_BYTE = 8

-- The large data of this call, and how many bytes the call sends, in bytes of large data.
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
  local bytes, small, count = large.bytes, 0, #jids
  for i = 1, #jids > 1 and #jids or 0 do
    local size = finite(try('hstrlen', job_key(jids[i]), 'data'), 0)
    if size < LARGE_DATA then
      size = size * JSON_BYTE
      small = small + size
    end
    bytes = bytes + size
    if bytes > MAX_LARGE and (i > 1 or large.bytes > 0) then
      count = i - 1
      break
    end
  end
  large.bytes = large.bytes + small -- set_beside counts the others
  return count
end

-- A reply with large data, or without any and without a rest the text alone.
local function with_large(text, rest) -- cold
  if #large == 0 and rest == '' then
    return text
  end
  return {text, rest, unpack(large)}
end
