-- The effects of the end of a job with options: completion, failure, cancellation or expiry.

-- The maximum size in bytes of a message about a job's end. A larger one has only the state.
local LARGEST_END = 65536

-- Notifies waiting clients of the end of a job, with all details unless the record is kept.
local function publish_end(jid, state, forgotten) -- cold
  local message = (state == 'complete' or state == 'failed') and read_end(try, jid)
  if not message then
    message = '{"state":"canceled","cause":"' .. state .. '"}'
  elseif #message > LARGEST_END and not forgotten then
    message = '{"state":"' .. state .. '","more":true}'
  end
  publish('x:done:' .. jid, message)
end

-- Notes how long the record of an incomplete job with a lifetime is kept, or deletes it.
local function keep_record(jid, stored, state, forgotten) -- cold
  if state ~= 'failed' then
    note_life(jid)
  elseif forgotten and delete_failed(jid, true) == 'kept' then
    note_life(jid, now)
  elseif not forgotten and has_option(stored, KEEP_FAILED) then
    note_life(jid, end_in_state(split_options(stored), state, now))
  end
end

-- Must be called after an end other than completion was written, with the job's previous options
-- and its last state: failed, canceled or expired.
local function job_ended(jid, stored, state) -- cold
  local has, failed = letters_of(stored), state == 'failed'
  local forgotten = failed and has[KEEP_FAILED]
    and finite(split_options(stored)[KEEP_FAILED]) == 0 -- deleted immediately
  if failed and has[HAS_RESULT] then
    keep_result(job_key(jid), state)
  end
  if has[AWAITED] then
    publish_end(jid, state, forgotten)
  end
  if has[UNIQUE] then
    release_claim(jid, stored, state)
  end
  if has[LIMITED] then
    leave_limits(jid, stored)
  end
  if failed and has[WATCHED] then
    tell_all({jid}, '0', job_ended)
  end
  if has.mortal then
    keep_record(jid, stored, state, forgotten)
  end
end

-- Finishes a failure already written. stored may be false. keep has the settings for failed jobs.
local function settle_failure(jid, group, stored, keep)
  if stored then
    job_ended(jid, stored, 'failed')
  end
  if keep then
    file_failure(jid, group, keep, stored)
  end
end

-- Deletes complete jobs whose records are not kept.
local function forget_completed(items) -- cold
  local keys, jids = {}, {}
  for i = 1, #items do
    local item = items[i]
    local key, tags = item.key, try('hget', item.key, 'tags')
    if tags ~= '[]' then
      remove_tags(item.jid, names_of(tags), 1)
    end
    item.forgotten, jids[i] = true, item.jid
    keys[3 * i - 2], keys[3 * i - 1], keys[3 * i] = key, key .. '-history', key .. '-dependencies'
  end
  each_slice(try, 'zrem', prefix .. 'x:until', jids)
  each_slice(call, 'del', prefix .. 'x:none', keys)
end

-- Like job_ended, for complete jobs, but leaves limits to stop_all_limited. Deletes jobs whose
-- records are not kept, and sets forgotten on their items. Reports whether there were any.
local function all_completed(items) -- cold
  local lives, over, claiming, known = {}, {}, {}, {}
  for i = 1, #items do
    local item = items[i]
    local jid, stored = item.jid, item.stored
    local has, ends, forgotten = letters_of(stored), nil, nil
    if has[KEEP] then
      known[stored] = known[stored] or {end_of_record(stored)}
      ends, forgotten = known[stored][1], known[stored][2]
    end
    if has[HAS_RESULT] then
      keep_result(item.key, 'complete')
    end
    if has[AWAITED] then
      publish_end(jid, 'complete', forgotten)
    end
    if has[UNIQUE] then
      claiming[#claiming + 1] = item
    end
    if forgotten then
      over[#over + 1] = item
    elseif ends then
      add_pair(lives, ends, jid)
    end
  end
  release_claims(claiming)
  each_slice(try, 'zadd', prefix .. 'x:until', lives)
  if over[1] then
    forget_completed(over)
  end
  return over[1] ~= nil
end
