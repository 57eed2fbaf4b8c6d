-- cancel: deletes jobs, whatever their state; completed ones are left alone.
--
-- KEYS[1]  the namespace prefix
-- ARGV     NOW, jid...
-- Returns  the jids, existing or not
-- Errors   Cancel() when a job depends on one of them and is not itself among them
-- Cost     14 commands a job
-- Repeat   once
-- Needs    del exists expire hdel hexists hget hincrby hmget hset lrem publish smembers srem time
--          zincrby zpopmax zpopmin zrem zscore

local call = redis.call
local prefix = KEYS[1]
local try = redis.pcall
local function finite(text, default)
  local n = tonumber(text)
  if n and n - n == 0 then
    return n
  end
  return default
end





local function job_ended(jid, stored, state)
local function has_option(text, letter)
  return string.find(text, '^%a*' .. letter) ~= nil
end
local function without_letter(text, letter)
  local letters, body = string.match(text, '^(%a+)(|.*)$')
  letters = string.gsub(letters, letter, '')
  return letters == '' and '' or letters .. body
end
local function result_field(state, time, result)
  return state .. '|' .. (time or '') .. '|' .. result
end
local function read_end(run, jid)
  local job = run('hmget', (prefix .. 'j:' .. jid), 'state', 'time', 'failure', 'x:result')
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
local function keep_result(key, state)
  local job = call('hmget', key, 'time', 'x:result', 'x:o')
  local belongs, stored = result_field(state, job[1], ''), job[2] or ''
  local result = string.match(stored, '^%a+|[^|]*|(.*)$')
  if result and string.sub(stored, 1, #belongs) ~= belongs then
    call('hset', key, 'x:result', belongs .. result)
  end
  local left = without_letter(job[3], 'r')
  if left == '' then
    call('hdel', key, 'x:o')
  else
    call('hset', key, 'x:o', left)
  end
end
local function publish_end(jid, state)
  local message = state ~= 'canceled' and read_end(try, jid)
  if not message or #message > 65536 then
    message = '{"state":"' .. state .. '"' .. (message and ',"more":true' or '') .. '}'
  end
  try('publish', prefix .. ('x:done:' .. jid), message)
end
  if state ~= 'canceled' and has_option(stored, 'r') then
    keep_result((prefix .. 'j:' .. jid), state)
  end
  if has_option(stored, 'w') then
    publish_end(jid, state)
  end
end


local stamp = ARGV[1]
local now
if stamp == '' then
  local time = call('time')
  stamp = time[1] .. string.format('.%06d', time[2])
  now = tonumber(stamp)
else
  now = tonumber(stamp)
  if not now or now - now ~= 0 then
    error('Arg "now" missing or not a number: ' .. tostring(stamp))
  end
  if not string.find(stamp, '^%d+%.?%d*$') then
    stamp = string.format('%.17g', now)
  end
end


local function list_of(text)
  if not text then
    return {}
  end
  local ok, list = pcall(cjson.decode, text)
  if ok and type(list) == 'table' then
    return list
  end
  return {}
end
local function names_of(text)
  local found = {}
  for _, name in ipairs(list_of(text)) do
    if type(name) == 'string' or type(name) == 'number' then
      found[#found + 1] = tostring(name)
    end
  end
  return found
end






local function wake(queue)
  local waiting = prefix .. 'x:idle:' .. queue
  for i = 1, 2 * 100 do
    local worker = (i <= 100 and try('zpopmin', waiting) or try('zpopmax', waiting))[1]
    if not worker then
      return
    end
    local idle = try('srem', prefix .. 'x:idle', worker) == 1
    if idle and finite(try('publish', prefix .. ('x:wake:' .. worker), queue), 0) > 0 then
      return true
    end
  end
end


local among = {}
for i = 2, #ARGV do
  among[ARGV[i]] = true
end
for i = 2, #ARGV do
  for _, dependent in ipairs(call('smembers', (prefix .. 'j:' .. ARGV[i]) .. '-dependents')) do
    if not among[dependent] then
      do
        local area, message = 'Cancel', ARGV[i] .. ' is a dependency of ' .. dependent .. ' but is not mentioned to be canceled'
        error(area .. '(): ' .. message)
      end
    end
  end
end
local function read_jobs()
  local jobs = {}
  for i = 2, #ARGV do
    local jid = ARGV[i]
    local key = (prefix .. 'j:' .. jid)
    if not jobs[jid] then
      jobs[jid] = call('hmget', key, 'state', 'queue', 'failure', 'worker', 'tags', 'x:o')
      jobs[jid].dependencies = call('smembers', key .. '-dependencies')
    end
  end
  return jobs
end
do
  if redis.acl_check_cmd and not redis.acl_check_cmd('publish', prefix .. 'log') then
    error({err = 'NOPERM this user may not publish to the channel ' .. prefix .. 'log'})
  end
end
local jobs, jids = read_jobs(), {}
local gone = {false, false, false, false, false, false, dependencies = {}}
for i = 2, #ARGV do
  local jid = ARGV[i]
  repeat
    local jid, job = jid, jobs[jid]
    local key = (prefix .. 'j:' .. jid)
    local state, queue, failure, worker = job[1], job[2], job[3], job[4]
    if state == 'complete' then
      break
    end
    local message = cjson.encode({jid = jid, worker = worker, event = 'canceled', queue = queue})
    try('publish', prefix .. 'log', message)
    if worker and worker ~= '' then
      try('zrem', (prefix .. 'w:' .. worker .. ':jobs'), jid)
      try('publish', prefix .. ('w:' .. worker), message)
    end
    if queue then
      do
        local queue, jid = queue, jid
        try('zrem', (prefix .. 'q:' .. queue .. '-' .. 'work'), jid)
        try('zrem', (prefix .. 'q:' .. queue .. '-' .. 'locks'), jid)
        try('zrem', (prefix .. 'q:' .. queue .. '-' .. 'scheduled'), jid)
        try('zrem', (prefix .. 'q:' .. queue .. '-' .. 'depends'), jid)
      end
    end
    if state == 'running' and queue then
      do
        local queue = queue
        if try('hexists', prefix .. 'config', queue .. '-max-concurrency') == 1 then
          wake(queue)
        end
      end
    end
    for _, other in ipairs(job.dependencies) do
      try('srem', (prefix .. 'j:' .. other) .. '-dependents', jid)
    end
    if state == 'failed' then
      do
        local jid, queue, failure = jid, queue, failure
        local details = list_of(failure)
        do
          local jid, failure, count = jid, details
          if type(failure.group) == 'string' then
            try('lrem', prefix .. 'f:' .. failure.group, count or 0, jid)
            do
              local group = failure.group
              if call('exists', prefix .. 'f:' .. group) == 0 then
                try('srem', prefix .. 'failures', group)
              end
            end
          end
        end
        do
          local queue, failure = queue, details
          local at = finite(failure.when)
          if at and queue then
            do
              local day, queue, field, by = (at - at % 86400), queue, 'failed', -1
              local key = (prefix .. 's:' .. 'stats' .. ':' .. string.format('%d', day) .. ':' .. queue)
              if try('hincrby', key, field, by) == by then
                do
                  local key, day = key, day
                  local keep = day + 86400 * (1 + finite(try('hget', prefix .. 'config', 'stats-history'), 30)) - now
                  try('expire', key, string.format('%.0f', math.min(math.max(keep, 60), 1e10)))
                end
              end
            end
          end
        end
        do
          local jids = {jid}
          do
            local run, operation, key, list = try, 'zrem', prefix .. 'failed-jobs-list', jids
            for from = 1, #list, 1000 do
              run(operation, key, unpack(list, from, math.min(from + 999, #list)))
            end
          end
        end
      end
    end
    do
      local jid, tags, first = jid, names_of(job[5]), 1
      for i = first, #tags do
        do
          local jid, tag = jid, tags[i]
          if try('zrem', prefix .. 't:' .. tag, jid) == 1 then
            if finite(try('zincrby', prefix .. 'tags', -1, tag), 1) <= 0 then
              call('zrem', prefix .. 'tags', tag)
            end
          end
        end
      end
    end
    call('del', key, key .. '-history', key .. '-dependencies')
    do
      local channel, jid = 'canceled', jid
      if (type(try('zscore', prefix .. 'tracked', jid)) == 'string') then
        try('publish', prefix .. channel, jid)
      end
    end
    if job[6] then
      job_ended(jid, job[6], 'canceled')
    end
  until true
  if jobs[jid][1] ~= 'complete' then
    jobs[jid] = gone
  end
  jids[i - 1] = jid
end
return jids

