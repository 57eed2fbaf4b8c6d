-- Commands that change many jobs, leaving out any that can't be changed.

-- The maximum number of jobs named in a call.
local MAX_NAMED = 500

-- The jobs left unchanged: {jid, code, why} for each.
local left_alone = {}

-- Returns the jids from ARGV[first] on, each once. There must be at least one.
local function read_jids(area, first) -- cold
  required(area, 'jid', ARGV[first])
  if #ARGV - first >= MAX_NAMED then
    reject(area, 'More than ' .. MAX_NAMED .. ' jobs')
  end
  local jids, seen = {}, {}
  for i = first, #ARGV do
    if not seen[ARGV[i]] then
      jids[#jids + 1], seen[ARGV[i]] = ARGV[i], true
    end
  end
  return jids
end

-- Notes why a job is left unchanged: a code, and a text.
local function leave_out(jid, code, why)
  left_alone[#left_alone + 1] = {jid, code, why}
end
