-- What follows when a job that has options ends for good: it is complete, failed or canceled.

-- @include "lib/base.lua"
-- @include "lib/events.lua"
-- @include "lib/options.lua"
-- @include "lib/policies.lua"
-- @include "lib/result.lua"
-- @include "lib/unique.lua"

-- Called after the job was written, with its stored options as they were before, and its last state.
local function job_ended(jid, stored, state) -- cold
  if state ~= 'canceled' and has_option(stored, 'r') then
    keep_result(job_key(jid), state)
  end
  if has_option(stored, 'w') then
    publish('x:done:' .. jid, state)
  end
  if has_option(stored, 'u') then
    release_claim(jid, stored, state)
  end
  if state == 'failed' and has_option(stored, 'd') then
    tell_dependents(jid, job_ended)
  end
end
