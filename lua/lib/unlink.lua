-- Canceling or ending jobs with too many dependencies for one call.

-- Makes a job wait for fewer others, and for OPEN, so it does not run unless the caller continues.
local function unlink_some(jid) -- cold
  local others = call('spop', job_key(jid) .. '-dependencies', max_unlinked())
  for i = 1, #others do
    try('srem', job_key(others[i]) .. '-dependents', jid)
  end
  link(jid, {OPEN}, {})
end
