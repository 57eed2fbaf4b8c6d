-- peek: the jobs that a pop would return, without locking them. Moves due jobs into work.
--
-- Args     queue, count [, 'beside', the cursor of the last call or '']
-- Returns  a JSON array of at most count jobs. Expired jobs are passed over, about 1000 of them;
--          beside: an array of at most 250 jobs, perhaps none, up to 256 KiB of JSON and 2 MiB of
--          large data; the next cursor, empty at the end; and the large data. Thousands of
--          dependents are named in left_out instead
-- Errors   Queue(), Peek()
-- Cost     4 commands, 4 for each job; 3 for each due job, 8 for each that recurs
-- For      classic
-- Repeat   safe

local queue = required('Queue', 'queue', ARGV[3])
local count = whole('Peek', 'count', ARGV[4])
local beside = ARGV[5] == 'beside'
budget.relations = beside and MAX_RELATED

-- The maximum number of expired jobs that are passed over.
local MAX_PASSED = 1000

-- The maximum numbers of jobs that a call returns, and examines, from a cursor on.
local MAX_PEEKED = 250
local MAX_LOOKED = 500

-- The jobs to return, and the number of jobs that were passed over.
local out, passed = {}, 0

-- Appends a job to out, or removes it from the key if it is gone. Returns 0 if removed, else 1.
local function show(key, jid)
  local job = read_job(try, jid)
  if job[JID] and job[OPTIONS] and is_over(jid, job[OPTIONS], 'waiting') then
    passed = passed + 1
  elseif job[JID] then
    local text = job_json(job, is_tracked(jid), beside and set_beside(job))
    out[#out + 1], budget.text = text, budget.text - #text
  elseif may_write(key) then
    return 1 - call('zrem', key, jid)
  end
  return 1
end

-- The same for some jobs.
local function show_some(key, jids)
  local kept = 0
  for _, jid in ipairs(jids) do
    kept = kept + show(key, jid)
  end
  return kept
end

-- Shows all wanted jobs.
local function peek()
  local locks, work = queue_key(queue, 'locks'), queue_key(queue, 'work')
  local lost = call('zrangebyscore', locks, '-inf', stamp, 'LIMIT', 0, count)
  local recur, scheduled = is_due(queue, 'recur'), is_due(queue, 'scheduled')
  call('zcard', work)
  show_some(locks, lost)
  if recur or scheduled then
    bring_due(queue, recur, scheduled, count - #out)
  end
  local shown = 0
  while #out < count and passed < MAX_PASSED do
    local jids = call('zrevrange', work, shown, shown + count - #out - 1)
    if #jids == 0 then
      break
    end
    shown = shown + show_some(work, jids)
  end
end

-- The number of jobs that this call may return from a cursor on, and the number examined.
local room, looked = math.min(count, MAX_PEEKED), 0

-- Shows jobs of the next most entries of a list from a cursor on. Returns the next cursor, or nil.
local function show_from(list, cursor, most)
  local offset = after_cursor('Peek', list, cursor)
  list.total = math.min(list.total, offset + most)
  while #out < room and looked < MAX_LOOKED do
    local wanted = math.min(room - #out, MAX_LOOKED - looked)
    local jids, scores = read_list(list, offset, wanted)
    for i, jid in ipairs(jids) do
      if not has_room(jid) then
        return cursor
      end
      local kept = show(list.key, jid)
      offset, looked, list.total = offset + kept, looked + 1, list.total - 1 + kept
      cursor = cursor_at(list, offset, jid, scores[i])
    end
    if #jids < wanted then
      return nil
    end
  end
  return cursor
end

-- Moves some due jobs into work, after earlier calls have moved some. Returns the number moved so
-- far, or nil if these are all, or as many as wanted.
local function bring_some(work, moved)
  local recur, scheduled = is_due(queue, 'recur'), is_due(queue, 'scheduled')
  local wanted = count - #out - moved
  local some = math.min(wanted, room - #out)
  if not (recur or scheduled) or some <= 0 then
    return nil
  elseif recur then
    some = children_with_room(queue, some, MAX_LARGE)
  end
  bring_due(queue, recur, scheduled, some)
  work.total = call('zcard', work.key)
  local is_left = some < wanted and (is_due(queue, 'recur') or is_due(queue, 'scheduled'))
  return is_left and may_write(work.key) and moved + some or nil
end

-- Shows some jobs from a cursor on: a letter, l for lost jobs, d for due jobs, of which only as
-- many are moved as wanted, or w for work, and the progress of the earlier calls with these.
-- Returns the next cursor.
local function peek_from(cursor)
  local part, place = string.match(cursor, '^([ldw])(.*)$')
  if not part and cursor ~= '' then
    reject('Peek', 'Arg "cursor" is no cursor: ' .. string.sub(cursor, 1, 200))
  end
  local moved = part == 'd' and whole('Peek', 'cursor', place) or 0
  local work = open_list('Peek', 'waiting', queue)
  if not part or part == 'l' then
    local after = show_from(open_list('Peek', 'stalled', queue), place or '', count)
    if after then
      return 'l' .. after
    end
  end
  if part ~= 'w' then
    moved, place = bring_some(work, moved), ''
    if moved then
      return string.format('d%d', moved)
    end
  end
  local after = show_from(work, place, math.huge)
  return after and 'w' .. after or ''
end

if beside then
  local cursor = peek_from(ARGV[6] or '')
  return with_large(joined(out), cursor)
end
peek()
return joined(out)
