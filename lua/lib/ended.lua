-- What follows when a job that has options ends for good: it is complete, failed or canceled.

-- @include "lib/base.lua"
-- @include "lib/events.lua"
-- @include "lib/options.lua"
-- @include "lib/policies.lua"
-- @include "lib/result.lua"
-- @include "lib/unique.lua"

-- The largest message, in bytes, that says how a job has ended. A larger one only has the state.
local LARGEST_END = 65536

-- Tells those who wait for a job how it has ended.
local function publish_end(jid, state) -- cold
  local message = state ~= 'canceled' and read_end(try, jid)
  if not message or #message > LARGEST_END then
    message = '{"state":"' .. state .. '"' .. (message and ',"more":true' or '') .. '}'
  end
  publish('x:done:' .. jid, message)
end

-- Called after the job was written, with its stored options as they were before, and its last state.
local function job_ended(jid, stored, state) -- cold
  if state ~= 'canceled' and has_option(stored, 'r') then
    keep_result(job_key(jid), state)
  end
  if has_option(stored, 'w') then
    publish_end(jid, state)
  end
  if has_option(stored, 'u') then
    release_claim(jid, stored, state)
  end
  if state == 'failed' and has_option(stored, 'd') then
    tell_dependents(jid, job_ended)
  end
end
