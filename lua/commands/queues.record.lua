-- queues.record: adds the figures of this minute to the history of the first 1000 queues, unless
-- they were recorded. Records of longer times hold the highest figures, and sums of failures.
--
-- Args     [cursor, count, waiting, oldest, running, failed]: the last reply, to continue
-- Returns  nil at the end, if this minute was recorded, or if the user may only read; else the
--          arguments of the next call
-- Errors   Queues.record()
-- Cost     4 commands; 2 for an idle queue, up to 16 for others, 5 a priority; 1 for 200 workers
-- For      Go
-- Repeat   once

-- The maximum number of queues with a history, and the number that a call records.
local MAX_RECORDED = 1000
local MAX_NOW = 100

-- The maximum number of workers to read, last seen first.
local MAX_TAKERS = 1000

-- The longest gap between records in minutes across which failures are attributed.
local MAX_GAP = 5

local cursor = ARGV[3] or ''
local sums = {}
for i = 4, 8 do
  sums[i - 3] = whole('Queues.record', 'figures', ARGV[i] or 0)
end
if cursor == '' and not is_record_due() or not may_write(prefix .. 'x:recorded') then
  return nil
end

local minute, today = math.floor(now / 60), day_of(now)

-- Numbers as bytes. widths has a digit for each number: how many bytes to use. A number that is too
-- large becomes the largest.
local function pack(widths, numbers)
  local bytes, at = {}, 0
  for i = 1, #numbers do
    local width = tonumber(string.sub(widths, i, i))
    local left = math.floor(math.min(math.max(numbers[i], 0), 256 ^ width - 1))
    for place = at + width, at + 1, -1 do
      bytes[place] = string.char(left % 256)
      left = math.floor(left / 256)
    end
    at = at + width
  end
  return table.concat(bytes)
end

-- The reverse of pack; or nil if the text is too short.
local function unpacked(widths, text)
  local numbers, at = {}, 0
  for i = 1, #widths do
    numbers[i] = 0
    for _ = 1, tonumber(string.sub(widths, i, i)) do
      at = at + 1
      if at > #text then
        return nil
      end
      numbers[i] = 256 * numbers[i] + string.byte(text, at)
    end
  end
  return numbers
end

-- The header of a history: empty if there is none, or nil if the key is damaged.
local function head_of(key)
  local text = try('getrange', key, 0, PAST_HEAD - 1)
  return type(text) == 'string' and (unpacked('44', text) or none) or nil
end

-- Adds figures to the present record of a ring. Returns whether it is new.
local function add_record(key, step, figures)
  local size, first = ring_of(step)
  local nth = math.floor(now / step)
  local lap, at = math.floor(nth / size) % 1024, first + PAST_RECORD * (nth % size)
  local old = step > 60 and try('getrange', key, at, at + PAST_RECORD - 1)
  local known, before = 1, type(old) == 'string' and unpacked('243323', old) or none
  local is_new = not before[1] or math.floor(before[1] / 64) ~= lap or before[1] % 64 == 0
  local numbers = {0, unpack(figures)}
  if not is_new then
    known = math.min(before[1] % 64 + 1, step / 60)
    for i = 2, 5 do
      numbers[i] = math.max(numbers[i], before[i])
    end
    numbers[6] = numbers[6] + before[6]
  end
  numbers[1] = 64 * lap + known
  try('setrange', key, at, pack('243323', numbers))
  return is_new
end

-- Adds figures to a history, whose header is known.
local function add_figures_to(key, head, figures, failed_today)
  if not head[1] then
    try('setrange', key, PAST_LENGTH - 1, string.char(0))
  end
  try('setrange', key, 0, pack('44', {minute, failed_today}))
  add_record(key, 60, figures)
  add_record(key, 300, figures)
  if add_record(key, 3600, figures) or not head[1] then
    try('expire', key, PAST_KEPT)
  end
end

-- The names and patterns in a list of queues, from which some workers take.
local function new_takers(list)
  local takers = {workers = 0, names = {}, patterns = {}, excluded = {}}
  for i = 1, #list do
    local text, excludes = string.gsub(list[i], '^!', '')
    if excludes == 0 and not string.find(text, '*', 1, true) then
      takers.names[text] = true
    else
      local found = excludes == 0 and takers.patterns or takers.excluded
      found[#found + 1] = '^' .. string.gsub(text, '%W', function(c)
        return c == '*' and '.-' or c == '\0' and '%z' or '%' .. c
      end) .. '$'
    end
  end
  return takers
end

-- Adds a registered worker to the workers with the same list of queues.
local function add_taker(all, json_text)
  local ok, info = pcall(cjson.decode, json_text)
  if not ok or type(info) ~= 'table' or info.paused or info.stopping then
    return
  end
  local listed, list = pcall(names, '', '', cjson.encode(info.queues or none))
  if listed and #list > 0 then
    local text = table.concat(list, '\0')
    all[text] = all[text] or new_takers(list)
    all[text].workers = all[text].workers + 1
  end
end

-- The registered workers by what they take from, and their number.
local function read_takers()
  local all, count, from = {}, 0, exact(now - REGISTERED)
  local seen = try('zrevrangebyscore', prefix .. 'workers', '+inf', from, 'LIMIT', 0, MAX_TAKERS)
  for first = 1, #seen, 200 do
    local some = {}
    for i = first, math.min(first + 199, #seen) do
      some[#some + 1] = registry_key(seen[i])
    end
    local texts = try('mget', unpack(some))
    for i = 1, #some do
      local at, json_text = string.match(texts[i] or '', '^([^|]*)|[^|]*|(.*)$')
      if finite(at, 0) > now - REGISTERED then
        count = count + 1
        add_taker(all, json_text)
      end
    end
  end
  return all, count
end

local function matches_any(patterns, queue)
  for i = 1, #patterns do
    if string.find(queue, patterns[i]) then
      return true
    end
  end
  return false
end

-- The number of workers that take from a queue.
local function workers_of(all, queue)
  local count = 0
  for _, takers in pairs(all) do
    if (takers.names[queue] or matches_any(takers.patterns, queue)) and
      not matches_any(takers.excluded, queue) then
      count = count + takers.workers
    end
  end
  return count
end

-- The figures of the jobs of a queue: waiting, the longest wait, and running.
local function job_figures(queue)
  local work, locks = queue_key(queue, 'work'), queue_key(queue, 'locks')
  local scheduled = queue_key(queue, 'scheduled')
  if call('exists', work, locks, scheduled, queue_key(queue, 'recur')) == 0 then
    return 0, 0, 0
  end
  local bands = {}
  add_waiting(bands, queue)
  add_due(bands, queue, 'scheduled')
  add_due(bands, queue, 'recur')
  return call('zcard', work) + call('zcount', scheduled, '-inf', stamp), bands.longest or 0,
    call('zcount', locks, '(' .. stamp, '+inf')
end

-- The number of jobs of a queue that failed on a day.
local function failures_on(day, queue)
  return finite(try('hget', stats_key('stats', day, queue), 'failures'), 0)
end

-- The number of failures since the last record, or 0 if the gap is too long.
local function failed_since(last, head, queue, failed_today)
  local known_on, day = head[1] and day_of(60 * head[1]), last and day_of(60 * last)
  local before = known_on == day and head[2] or 0
  if not last then
    return 0
  elseif day == today then
    return math.max(failed_today - before, 0)
  end
  return failed_today + math.max(failures_on(day, queue) - before, 0)
end

local recorded = {}
cursor = each_queue('Queues.record', cursor, math.min(MAX_NOW, math.max(MAX_RECORDED - sums[1], 1)),
  function(queue)
    recorded[#recorded + 1] = queue
  end)
sums[1] = sums[1] + #recorded
local takers, registered = read_takers()
call('set', prefix .. 'x:recorded', exact(minute), 'EX', 120)
local all_key = prefix .. 'x:history'
local all_head = head_of(all_key) or none
local last = all_head[1] and minute - all_head[1] <= MAX_GAP and all_head[1] or nil

-- Records the figures of a queue, unless it has none, and adds them to the sums.
local function record_queue(queue)
  local key, failed_today = past_key(queue), failures_on(today, queue)
  local ok, waiting, oldest, running = pcall(job_figures, queue)
  local workers = workers_of(takers, queue)
  local is_new_day = last and day_of(60 * last) < today
  if not ok or waiting + oldest + running + workers + failed_today == 0 and not is_new_day then
    return
  end
  local head = head_of(key)
  local failed = failed_since(last, head or none, queue, failed_today)
  local is_active = waiting + oldest + running + workers + failed > 0
  local is_known = head and head[1] and day_of(60 * head[1]) == today and head[2] == failed_today
  if head and (is_active or failed_today > 0 and not is_known) then
    add_figures_to(key, head, {waiting, oldest, running, workers, failed}, failed_today)
  end
  sums[2], sums[3] = sums[2] + waiting, math.max(sums[3], math.floor(oldest))
  sums[4], sums[5] = sums[4] + running, sums[5] + failed
end

for i = 1, #recorded do
  record_queue(recorded[i])
end
if cursor ~= '' and sums[1] < MAX_RECORDED then
  return {cursor, unpack(sums)}
end
add_figures_to(all_key, all_head, {sums[2], sums[3], sums[4], registered, sums[5]}, 0)
