-- Lists of jobs to browse: the parts of a queue, the failed jobs of a group, the jobs with a tag,
-- tracked jobs and complete jobs. Nothing here writes.
--
-- A cursor is the last entry read: "SCORE JID". A failure group has no scores, so its cursor is
-- "PLACE JID", counted from the oldest failure, because new failures are added at the other end.
-- For named jids, it is the number of entries before the next one.

-- The maximum number of jobs that a call returns or changes.
local MAX_SHOWN = 500

local function list_key(area, kind, name)
  local parts = {
    waiting = 'work', running = 'locks', stalled = 'locks', scheduled = 'scheduled',
    depends = 'depends', recurring = 'recur',
  }
  if parts[kind] then
    return queue_key(named('Queue', 'queue', name), parts[kind])
  elseif kind == 'failed' then
    return prefix .. 'f:' .. named(area, 'group', name)
  elseif kind == 'tagged' then
    return prefix .. 't:' .. named(area, 'tag', name)
  elseif kind == 'complete' then
    return prefix .. 'completed'
  elseif kind == 'tracked' then
    return prefix .. 'tracked'
  elseif kind == 'worker' then
    return worker_key(named(area, 'worker', name))
  end
  reject(area, 'Unknown list "' .. tostring(kind) .. '"')
end

-- Opens a list: sets the key, offset and length, and whether scores fall.
local function open_list(area, kind, name)
  if kind == 'jids' then
    local jids = names(area, 'jids', required(area, 'jids', name))
    return {kind = kind, jids = jids, total = #jids}
  end
  local key = list_key(area, kind, name)
  local list = {
    kind = kind, name = name, key = key, from = 0,
    falls = kind == 'waiting' or kind == 'complete',
  }
  if kind == 'failed' then
    list.total = call('llen', key)
  elseif kind == 'running' then
    list.from = call('zcount', key, '-inf', '(' .. stamp)
    list.total = call('zcount', key, stamp, '+inf')
  elseif kind == 'stalled' then
    list.total = call('zcount', key, '-inf', stamp)
  else
    list.total = call('zcard', key)
  end
  return list
end

-- Reports whether a list has no scores.
local function is_plain(list)
  return list.kind == 'failed' or list.kind == 'jids'
end

-- Returns the score of a jid in a list, or false.
local function score_in(list, jid)
  return not is_plain(list) and call('zscore', list.key, jid)
end

-- Reports whether a worker still holds a job: its list keeps lost jobs until it takes another.
local function is_held(worker, jid) -- cold
  local holder, state = unpack(try('hmget', job_key(jid), 'worker', 'state'))
  return holder == worker and state == 'running'
end

-- Reports whether a jid with this score, or false, is in a list.
local function is_listed(kind, name, jid, score) -- cold
  local at = score and tonumber(score)
  return at and not (kind == 'running' and at < tonumber(stamp)
    or kind == 'stalled' and at > tonumber(stamp)
    or kind == 'worker' and not is_held(name, jid))
end

-- Returns the given jids that are in a list, as a list, and their places among the given. Places in
-- the original list can't be cursors, because changing a job moves it. Jids of a failure group are
-- not checked: a Redis list can only be searched from an end.
local function these_of(area, kind, name, jids) -- cold
  local key, scores = kind ~= 'jids' and list_key(area, kind, name), none
  if kind == 'failed' then
    find_near_end(key, jids)
  elseif key and jids[1] then
    scores = call('zmscore', key, unpack(jids))
  end
  local present, at = {}, {}
  for i = 1, #jids do
    if not key or kind == 'failed' or is_listed(kind, name, jids[i], scores[i]) then
      present[#present + 1], at[#at + 1] = jids[i], i
    end
  end
  return {kind = 'jids', jids = present, at = at, total = #present}
end

-- Returns at most count jids of a list, without scores: writing a score as text costs more than
-- reading a jid. With 'WITHSCORES', a score follows each jid.
local function bare_list(list, offset, count, ...)
  local last = math.min(offset + count, list.total) - 1
  if last < offset then
    return {}
  elseif list.kind == 'jids' then
    return {unpack(list.jids, offset + 1, last + 1)}
  elseif list.kind == 'failed' then
    return call('lrange', list.key, offset, last)
  elseif list.falls then
    return call('zrevrange', list.key, offset, last, ...)
  end
  return call('zrange', list.key, list.from + offset, list.from + last, ...)
end

-- The same with scores, if the list has any.
local function read_list(list, offset, count)
  if is_plain(list) then
    return bare_list(list, offset, count), {}
  end
  local found, jids, scores = bare_list(list, offset, count, 'WITHSCORES'), {}, {}
  for i = 1, #found, 2 do
    jids[#jids + 1], scores[#scores + 1] = found[i], found[i + 1]
  end
  return jids, scores
end

-- Reports whether a text precedes another, byte by byte: Lua would use the server's locale.
local function precedes(a, b) -- cold
  for i = 1, math.min(#a, #b) do
    local x, y = string.byte(a, i), string.byte(b, i)
    if x ~= y then
      return x < y
    end
  end
  return #a < #b
end

-- Returns the number of members of a sorted set before a jid with a score, and whether the jid
-- still has this score: it may have left the set, or moved.
local function rank_of(key, score, jid) -- cold
  if call('zscore', key, jid) == score then
    return call('zrank', key, jid), true
  end
  local low, high = call('zcount', key, '-inf', '(' .. score), call('zcount', key, '-inf', score)
  while low < high do
    local middle = math.floor((low + high) / 2)
    if precedes(jid, call('zrange', key, middle, middle)[1]) then
      high = middle
    else
      low = middle + 1
    end
  end
  return low, false
end

-- Returns the number of entries of a list up to a cursor, or 0 without a cursor.
local function after_cursor(area, list, cursor) -- cold
  if cursor == '' then
    return 0
  elseif list.kind == 'jids' then
    return whole(area, 'cursor', cursor)
  end
  local place, jid = string.match(cursor, '^(%S+) (.*)$')
  local valid = place and (finite(place) or place == 'inf' or place == '-inf')
  if not valid or list.kind == 'failed' and not string.find(place, '^%d+$') then
    reject(area, 'Arg "cursor" is no cursor: ' .. string.sub(cursor, 1, 200))
  elseif list.kind == 'failed' then
    -- The places of older failures can only have decreased.
    return math.max(list.total - place, 0)
  end
  local rank, found = rank_of(list.key, place, jid)
  return list.falls and list.total - rank or math.max(rank + (found and 1 or 0) - list.from, 0)
end

-- Returns the cursor after the entry at an offset, from 0, with this score.
local function cursor_at(list, offset, jid, score) -- cold
  if list.kind == 'jids' then
    return string.format('%d', offset + 1)
  elseif list.kind == 'failed' then
    return string.format('%d', list.total - 1 - offset) .. ' ' .. jid
  end
  return score .. ' ' .. jid
end
