-- The effects of the end of a job with options: it is complete, failed, canceled or expired.

-- The largest message, in bytes, about the end of a job. A larger one only has the state.
local LARGEST_END = 65536

-- Whether a job in this last state has a record.
local function is_an_end(state) -- cold
  return state == 'complete' or state == 'failed'
end

-- Notifies the waiters of a job of how it has ended, with everything if its record is not kept.
local function publish_end(jid, state, forgotten) -- cold
  local message = is_an_end(state) and read_end(try, jid)
  if not message then
    message = '{"state":"canceled","cause":"' .. state .. '"}'
  elseif #message > LARGEST_END and not forgotten then
    message = '{"state":"' .. state .. '","more":true}'
  end
  publish('x:done:' .. jid, message)
end

-- Notes how long the record of a job with a lifetime is kept, or deletes it if it has failed and is
-- not kept.
local function keep_record(jid, stored, state, forgotten) -- cold
  if not is_an_end(state) or forgotten and state == 'complete' then
    note_life(jid)
  elseif forgotten and delete_failed(jid, true) == 'kept' then
    note_life(jid, now)
  elseif not forgotten and has_option(stored, state == 'complete' and KEEP or KEEP_FAILED) then
    local _, values = split_options(stored)
    note_life(jid, end_in_state(values, state, now))
  end
end

-- Called after the job was written, with its stored options as they were before, and its last
-- state: complete, failed, canceled, or expired if its life has ended. Returns whether the caller
-- is to delete the record of a complete job. Whoever completes jobs frees the slots of all of them
-- at once.
local function job_ended(jid, stored, state) -- cold
  local mortal = has_lifetime(stored)
  local forgotten = mortal and is_forgotten(stored, state)
  if is_an_end(state) and has_option(stored, HAS_RESULT) then
    keep_result(job_key(jid), state)
  end
  if has_option(stored, AWAITED) then
    publish_end(jid, state, forgotten)
  end
  if has_option(stored, UNIQUE) then
    release_claim(jid, stored, state)
  end
  if has_option(stored, LIMITED) and state ~= 'complete' then
    leave_limits(jid, stored)
  end
  if state == 'failed' and has_option(stored, WATCHED) then
    tell_all({jid}, '0', job_ended)
  end
  if mortal then
    keep_record(jid, stored, state, forgotten)
  end
  return forgotten and state == 'complete'
end
