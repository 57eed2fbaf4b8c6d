-- forget: deletes a job that has ended, with everything that belongs to it. Nobody is told.
--
-- KEYS[1]  the namespace prefix
-- ARGV     NOW, jid
-- Returns  the state that the job was in: it was left as it is unless that is complete or failed.
--          Nil if there is no such job
-- Errors   Job(); Cancel() when it has failed, and another job depends on it
-- Cost     5 commands; 11 if it has failed
-- Repeat   once
-- Needs    del exists expire hget hincrby hmget lindex llen lrem srandmember srem time zadd
--          zincrby zrem

local call = redis.call
local prefix = KEYS[1]
local try = redis.pcall
local function finite(text, default)
  local n = text and tonumber(text)
  if n and n - n == 0 then
    return n
  end
  return default
end


local stamp, usual = ARGV[1], true
if stamp == '' then
  local time = call('time')
  stamp = time[1] .. string.format('.%06d', time[2])
else
  usual = stamp and string.find(stamp, '^%d+%.?%d*$')
end
local now = usual and stamp + 0 or tonumber(stamp)
if not now or now - now ~= 0 then
  error('Arg "now" missing or not a number: ' .. tostring(stamp))
end
if not usual then
  stamp = string.format('%.17g', now)
end




local seldom1

















seldom1 = function(which, ...)
if which == 'note_life' then
local jid, ends = ...
  if ends then
    try('zadd', prefix .. 'x:until', string.format('%.17g', ends), jid)
  else
    try('zrem', prefix .. 'x:until', jid)
  end
elseif which == 'names_of' then
local text = ...
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
  local found = {}
  for _, name in ipairs(list_of(text)) do
    if type(name) == 'string' or type(name) == 'number' then
      found[#found + 1] = tostring(name)
    end
  end
  return found
elseif which == 'delete_failed' then
local jid, forced = ...
local function has_option(text, letter)
  return string.find(text, '^%a*' .. letter) ~= nil
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
local function uncount_failure(queue, failure)
  local at = finite(failure.when)
  if at and queue then
    do
      local day, queue, field, by = (at - at % 86400), queue, 'failed', -1
      local key = prefix .. 's:stats:' .. string.format('%d', day) .. ':' .. queue
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
local function count_from(group, failure, length)
  local jid = try('lindex', prefix .. 'f:' .. group, math.floor(length / 2))
  local middle = type(jid) == 'string' and list_of(try('hget', prefix .. 'j:' .. jid, 'failure')) or {}
  return finite(failure.when, 0) < finite(middle.when, 0) and -1 or 1
end
local function leave_group(jid, failure, count)
  local group = failure.group
  if type(group) == 'string' then
    local key = prefix .. 'f:' .. group
    local length = count and 0 or finite(try('llen', key), 0)
    if length >= 10000 then
      count = count_from(group, failure, length)
    end
    try('lrem', key, count or 0, jid)
    do
      local group = group
      if call('exists', prefix .. 'f:' .. group) == 0 then
        try('srem', prefix .. 'failures', group)
      end
    end
  end
end
local function remove_tags(jid, tags, first)
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
  local key = prefix .. 'j:' .. jid
  local job = try('hmget', key, 'state', 'queue', 'failure', 'tags', 'x:o')
  local stored = job[5] or ''
  if job[1] ~= 'failed' then
    return 'moved'
  elseif not forced and has_option(stored, 'K') or try('exists', key .. '-dependents') == 1 then
    return 'kept'
  end
  local details = list_of(job[3])
  leave_group(jid, details, -1)
  uncount_failure(job[2], details)
  remove_tags(jid, seldom1('names_of', job[4]), 1)
  call('del', key, key .. '-history')
  if (string.find(stored, '^%a*[stkK]') ~= nil) then
    seldom1('note_life', jid)
  end
  return 'deleted'
end
end





local function outsider(jids, among)
  for i = 1, #jids do
    if not among[jids[i]] then
      return jids[i]
    end
  end
end

local jid
do
  local area, name, text = 'Job', 'jid', ARGV[2]
  if not text then
    local words = {
      Job = 'no jid provided', Recurring = 'no jid provided', Queue = 'no queue name provided',
    }
    do
      local area, message = area, words[area] or 'Arg "' .. name .. '" missing'
      error(area .. '(): ' .. message)
    end
  end
  jid = text
end
local key = prefix .. 'j:' .. jid
local job = call('hmget', key, 'state', 'tags', 'x:o')
local state = job[1]
local function delete_complete()
  do
    call('del', prefix .. 'x:none')
  end
  try('zrem', prefix .. 'completed', jid)
  do
    local jid, tags, first = jid, seldom1('names_of', job[2]), 1
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
  if job[3] and (string.find(job[3], '^%a*[stkK]') ~= nil) then
    seldom1('note_life', jid)
  end
end
if state == 'complete' then
  delete_complete()
elseif state == 'failed' then
  do
    local jid, among, n = jid, {}, 0
    local dependents
    repeat
      local run, jid, among, n = call, jid, among, n
      local key = prefix .. 'j:' .. jid .. '-dependents'
      local found = run('srandmember', key, 10 + 1)
      if #found <= 10 or outsider(found, among) then
        dependents = found
        break
      end
      dependents = run('srandmember', key, n + 1)
    until true
    local other = outsider(dependents, among)
    if other then
      do
        local area, message = 'Cancel', jid .. ' is a dependency of ' .. other .. ' but is not mentioned to be canceled'
        error(area .. '(): ' .. message)
      end
    end
  end
  do
    call('del', prefix .. 'x:none')
  end
  seldom1('delete_failed', jid, true)
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
if state == 'complete' or state == 'failed' then
  try('zrem', prefix .. 'tracked', jid)
end
return state

