-- Writing the jobs of a put to their sets and hashes, and waking workers for them. For new jobs
-- without dependencies in a single set, adding them is the first write, without a read before.

-- Returns the score of a job put now without a priority, digit by digit, because formatting a
-- fraction is expensive. Returns nil unless stamp has ten digits and six decimals.
local function score_text()
  if #stamp == 17 and string.sub(stamp, 11, 11) == '.' and now < 9000000000 then
    return '-0.' .. string.sub(stamp, 1, 10) .. string.sub(stamp, 12)
  end
end

-- Returns the score of the nth job that a call puts into work, from 0, as a fraction. To be popped
-- in order, the jobs of a call have times one microsecond apart, or more if their scores need more.
local function fractional_score(n, priority) -- cold
  local size, apart = finite(priority, 0), 0.000001
  if size ~= 0 then
    local _, exponent = math.frexp(size)
    apart = math.max(apart, 2 ^ (exponent - 52) * 10000000000)
  end
  return work_score(now + n * apart, priority)
end

-- Returns the score of an item with a past due time if it has its own place, otherwise nil.
local function past_score(item) -- cold
  local stored = item.options or item.given.o
  if not stored or own_place(stored) ~= 'place' then
    return nil
  end
  item.more = item.more or {}
  add_pair(item.more, 'time', exact(item.at))
  return work_score(item.at, item.priority)
end

-- Adds the jobs of a queue to its parts, and sets their states. If all can be popped at once, this
-- is the first write.
local function place_all(puts, queue, group)
  local first = score_text()
  local digits = first and #group > 1 and string.sub(first, 4) + 0
  local work, n = none, 0
  for i = 1, #group do
    local item = group[i]
    if item.waits then
      call('zadd', queue_key(queue, 'depends'), stamp, item.jid)
      item.state = 'depends'
    elseif item.delay > 0 then
      call('zadd', queue_key(queue, 'scheduled'), exact(now + item.delay), item.jid)
      item.state = 'scheduled'
    else
      local score = item.score or item.at and past_score(item) or false
      local share = puts.turns and (item.share or item.given and item.given.share)
      if share and not score then
        score = fair_score(queue, item.priority, share, puts.turns)
      end
      if not score and (item.priority or not first) then
        score = fractional_score(n, item.priority)
      elseif not score then
        score = n == 0 and first or string.format('-0.%016d', digits + n)
      end
      if n == 0 then
        work = {score, item.jid} -- allocated to size at once
      else
        work[2 * n + 1], work[2 * n + 2] = score, item.jid
      end
      n = n + 1
      item.state = 'waiting'
    end
  end
  each_slice(call, 'zadd', queue_key(queue, 'work'), work)
  if puts.turns then
    write_later(puts.turns)
  end
end

-- Writes one job, and appends text to its history.
local function write_job(queue, item, text)
  local key, retries, tags = item.key, item.retries or DEFAULT_RETRIES, '[]'
  record(key, text)
  if item.tags and #item.tags > 0 then
    add_tags(item.jid, item.tags, 1)
    tags = cjson.encode(item.tags)
  end
  call('hset', key, 'jid', item.jid, 'klass', item.klass, 'data', item.data,
    'priority', item.priority or '0', 'tags', tags, 'state', item.state, 'worker', '',
    'expires', '0', 'queue', queue, 'retries', retries, 'remaining', retries, 'time', stamp,
    unpack(item.more or none))
  if item.waits then
    keep_delay(key, item.delay, item.checked)
  end
end

-- Returns the history entry of a put job, and its event before and after the jid.
local function put_texts(queue, idle)
  local quoted = cjson.encode(queue)
  local details = '{"q":' .. quoted .. '}'
  local text = entry(now, '"put"', details)
  if idle or not classic then -- see docs/internals/wake-ups.md
    return text, '{"queue":' .. quoted .. ',"event":"put","jid":', '}'
  end
  return text, '{"jid":', ',"event":"put","queue":' .. quoted .. '}'
end

local function publish_put(jid, first, last)
  publish('log', first .. cjson.encode(jid) .. last)
end

-- Writes the jobs of a queue and publishes the puts. Wakes a worker if idle is set, and checks for
-- tracked jobs if tracked is set. known_empty means reserves skip some queues.
local function write_all(puts, group, idle, tracked, known_empty)
  local queue = group[1].queue
  local text, first, last = put_texts(queue, idle)
  place_all(puts, queue, group)
  local heard = #group < WORTH_ASKING or is_heard()
  for i = 1, #group do
    local item = group[i]
    write_job(queue, item, text)
    if heard then
      publish_put(item.jid, first, last)
    end
    if item.old and item.old.lost then
      lock_lost(item.jid, item.old.worker)
    end
  end
  know_queue(queue)
  if tracked then
    publish_each_tracked('put', jids_of(group))
  end
  if known_empty then
    note_filled(queue, true)
  end
  if idle and #group == 1 and group[1].delay == 0 then
    wake_first(queue)
  elseif idle then
    wake_several(queue, group)
  end
end

-- Counts the members of batches, and watches the dependencies of jobs with a policy.
local function watch_all(puts) -- cold
  grow_batches(puts.batches or none)
  for jid, batch in pairs(puts.batches or none) do
    if batch.stored and has_option(batch.stored, POLICY) then
      watch(jid, job_ended, batch.members)
    end
  end
  for i = 1, #puts.items do
    if puts.items[i].watches then
      watch(puts.items[i].jid, job_ended)
    end
  end
end

-- Records when items expire, and expires up to two other jobs for each put with a lifetime.
local function enter_lives(items) -- cold
  local entries, ended = {}, 0
  local before, ends -- of the previous item: many puts have the same options
  for i = 1, #items do
    local item = items[i]
    local text = item.text or item.given and item.given.o
    if text and has_lifetime(text) then
      if text ~= before then
        ends, before = end_in_state(split_options(text), 'waiting'), text
        ends = ends and exact(ends)
      end
      if ends then
        add_pair(entries, ends, item.jid)
      end
      ended = ended + 1
    end
  end
  each_slice(try, 'zadd', prefix .. 'x:until', entries)
  end_lives(math.min(2 * ended, MAX_ENDED))
end
