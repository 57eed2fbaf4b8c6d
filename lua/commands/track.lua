-- track: starts or stops tracking a job, or lists the tracked jobs.
--
-- Args     none, or: 'track' or 'untrack', jid [, 'tidy']
--          tidy: removes some tracked jobs that are gone, and allows untracking such a job
-- Returns  none: JSON {jobs, expired}, where expired has the jids of jobs that are gone;
--          else 1 if this changed something, 0 if not
-- Errors   Track() when there is no such job
-- Cost     2 commands, with tidy 14 more; none: 4 for each tracked job
-- For      classic
-- Repeat   safe

-- The number of tracked jobs that a call that tracks a job checks.
local TIDIED = 10

local tracked = prefix .. 'tracked'
if not ARGV[3] then
  local found, expired = {}, {}
  for _, jid in ipairs(call('zrange', tracked, 0, -1)) do
    local job = read_job(try, jid)
    if job[JID] then
      found[#found + 1] = job_json(job, true)
    else
      expired[#expired + 1] = jid
    end
  end
  return '{"jobs":' .. joined(found) .. ',"expired":' .. array(expired) .. '}'
end

local action = string.lower(ARGV[3])
local jid = required('Track', 'jid', ARGV[4])
local may_be_gone = ARGV[5] == 'tidy' and action == 'untrack'
if call('exists', job_key(jid)) == 0 and not (may_be_gone and is_tracked(jid)) then
  raise('Track', new_problem('not_found', nil, 'Job does not exist'))
end
must_publish()
if action == 'track' then
  local changed = call('zadd', tracked, stamp, jid)
  publish('track', jid)
  if ARGV[5] == 'tidy' then
    untrack_gone(TIDIED)
  end
  return tostring(changed)
elseif action == 'untrack' then
  local changed = call('zrem', tracked, jid)
  publish('untrack', jid)
  return tostring(changed)
end
reject('Track', 'Unknown action "' .. ARGV[3] .. '"')
