-- Commands that change many jobs, leaving out any that can't be changed.

-- The maximum number of jobs named in a call.
local MAX_NAMED = 500

-- The jobs left unchanged: {jid, code, why} for each.
local left_alone = {}

-- Notes why a job is left unchanged: a code, and a text.
local function leave_out(jid, code, why)
  left_alone[#left_alone + 1] = {jid, code, why}
end
