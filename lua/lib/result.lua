-- The results of jobs. x:result is STATE|TIME|JSON, and belongs to the end of a job with this state
-- and time in its hash. A job that has since ended in another way has no result.

-- Returns the result of a job in this state since this time.
local function result_field(state, time, result) -- cold
  return state .. '|' .. (time or '') .. '|' .. result
end

-- Returns a job's state and, after its end, its failure and result, as JSON, and whether it has
-- ended. Returns false if the job does not exist.
local function read_end(run, jid) -- cold
  local state, time, failure, stored = unpack(
    run('hmget', job_key(jid), 'state', 'time', 'failure', 'x:result'))
  if not state then
    return false
  end
  local found = {state = state}
  local ended = state == 'complete' or state == 'failed'
  if ended then
    local belongs = result_field(state, time, '')
    if string.sub(stored or '', 1, #belongs) == belongs then
      found.result = string.sub(stored, #belongs + 1)
    end
    found.failure = state == 'failed' and failure or nil
  end
  return cjson.encode(found), ended
end

-- Makes the result from an earlier queue the result of the job's end, unless it has another.
local function keep_result(key, state) -- cold
  local time, before, stored = unpack(call('hmget', key, 'time', 'x:result', 'x:o'))
  local belongs, result = result_field(state, time, ''), nil
  result = string.match(before or '', '^%a+|[^|]*|(.*)$')
  if result and string.sub(before, 1, #belongs) ~= belongs then
    call('hset', key, 'x:result', belongs .. result)
  end
  write_options(key, without_letter(stored, HAS_RESULT))
end
