-- The results of jobs: x:result is STATE|TIME|JSON, and belongs to the end of a job that left the
-- hash with this state and time. A job that has ended in another way since has no result.

-- The result of a job that is in this state since this time.
local function result_field(state, time, result) -- cold
  return state .. '|' .. (time or '') .. '|' .. result
end

-- The state of a job and, if it has ended, its failure and its result, as JSON, and whether it has
-- ended. False if there is no such job.
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

-- Makes the result of an earlier queue the result of the job's end, unless it has another.
local function keep_result(key, state) -- cold
  local time, before, stored = unpack(call('hmget', key, 'time', 'x:result', 'x:o'))
  local belongs, result = result_field(state, time, ''), nil
  result = string.match(before or '', '^%a+|[^|]*|(.*)$')
  if result and string.sub(before, 1, #belongs) ~= belongs then
    call('hset', key, 'x:result', belongs .. result)
  end
  local left = without_letter(stored, HAS_RESULT)
  if left == '' then
    call('hdel', key, 'x:o')
  else
    call('hset', key, 'x:o', left)
  end
end
