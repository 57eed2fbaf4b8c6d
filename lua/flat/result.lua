-- result: how a job has ended, and its result.
--
-- KEYS[1]  the namespace prefix
-- ARGV     NOW, jid
-- Returns  JSON with the state; of a complete or failed job also the result, if it has one, and the
--          failure, if it has failed, both as text. Nil if there is no such job
-- Errors   Job()
-- Cost     1 command
-- Repeat   safe
-- Needs    hmget

local call = redis.call
local prefix = KEYS[1]

local function required(area, name, text)
  if not text then
    local words = {
      Job = 'no jid provided', Recurring = 'no jid provided', Queue = 'no queue name provided',
    }
    do
      local area, message = area, words[area] or 'Arg "' .. name .. '" missing'
      error(area .. '(): ' .. message)
    end
  end
  return text
end



local function read_end(run, jid)
local function result_field(state, time, result)
  return state .. '|' .. (time or '') .. '|' .. result
end
  local job = run('hmget', prefix .. 'j:' .. jid, 'state', 'time', 'failure', 'x:result')
  local state = job[1]
  if not state then
    return false
  end
  local found = {state = state}
  local ended = state == 'complete' or state == 'failed'
  if ended then
    local belongs = result_field(state, job[2], '')
    if string.sub(job[4] or '', 1, #belongs) == belongs then
      found.result = string.sub(job[4], #belongs + 1)
    end
    found.failure = state == 'failed' and job[3] or nil
  end
  return cjson.encode(found), ended
end

return read_end(call, required('Job', 'jid', ARGV[2]))

