-- The queues known to be empty: a worker of many queues need ask only a few.
--
-- The hash x:empty has, for each list of queues, a mark per queue: 1 if the queue was found empty
-- within the last second. x:filled has the queues filled since by scripts of this project. Classic
-- scripts do not record this, so all marks expire after a second.
--
-- ask.known, for several queues, holds the knowledge of one call:
--
--   marks   of all queues; queues with the mark chosen are checked
--   empty   by number, whether a checked queue has nothing to take, now or later
--   found   the numbers of the queues found empty, in order
--   filled  the queues in x:filled
--   step    the number of queues to check with one command: few at first, which may have enough

-- The bytes of marks.
local ZERO = 48
local ONE = 49

-- The maximum number of queues to check with one command.
local MAX_STEP = 500

local function new_known(queues) -- cold
  return {
    marks = string.rep('0', #queues), chosen = '0', empty = {}, found = {}, filled = none, step = 1,
  }
end

-- Reads the findings of earlier calls.
local function read_marks(ask, known)
  local stored = try('hget', prefix .. 'x:empty', ask.list)
  if type(stored) == 'string' and #stored == #ask.queues then
    local since = try('smembers', prefix .. 'x:filled')
    if not since.err then
      known.marks, known.filled = stored, since
    end
  end
  if #known.filled > 0 then
    local is_filled = set_of(known.filled, 1)
    local bytes = {string.byte(known.marks, 1, #known.marks)}
    for i = 1, #ask.queues do
      if is_filled[ask.queues[i]] then
        bytes[i] = ZERO
      end
    end
    known.marks = string.char(unpack(bytes))
  end
end

-- Records for later calls the first n queues that this call found empty.
local function remember_empty(ask, known, n)
  local key, empty, bytes = prefix .. 'x:empty', {}, {string.byte(known.marks, 1, #known.marks)}
  for at = 1, n do
    local i = known.found[at]
    empty[at], bytes[i] = ask.queues[i], ONE
  end
  known.marks = string.char(unpack(bytes))
  local first = call('exists', key) == 0
  try('hset', key, ask.list, known.marks)
  if first then
    call('expire', key, 1)
    call('del', prefix .. 'x:filled')
  elseif #known.filled > 0 then
    call('srem', prefix .. 'x:filled', unpack(empty))
  end
end

-- Finds the empty queues in a range. asked has the numbers of the queues, parts the names of the
-- keys, and n is the number of existing keys of the queues from first to last.
local function tell_apart(known, asked, parts, first, last, n) -- cold
  if n == 0 or first == last then
    for at = first, last do
      known.empty[asked[at]] = n == 0
    end
    return
  end
  local middle = math.floor((first + last) / 2)
  local left = call('exists', unpack(parts, 4 * first - 3, 4 * middle))
  tell_apart(known, asked, parts, first, middle, left)
  tell_apart(known, asked, parts, middle + 1, last, n - left)
end

-- Finds the empty queues among those with the given numbers. In a backlog, all have waiting jobs,
-- and asking for these is cheaper.
local function tell_all_apart(ask, asked) -- cold
  if #asked == 0 then
    return
  end
  local parts, work = {}, {}
  for n = 1, #asked do
    local key, at = queue_key(ask.queues[asked[n]], ''), 4 * n - 4
    parts[at + 1], parts[at + 2] = key .. 'work', key .. 'locks'
    parts[at + 3], parts[at + 4] = key .. 'scheduled', key .. 'recur'
    work[n] = parts[at + 1]
  end
  local n = call('exists', unpack(parts))
  if #asked == 1 or n < #asked or call('exists', unpack(work)) < #asked then
    return tell_apart(ask.known, asked, parts, 1, #asked, n)
  end
  for at = 1, #asked do
    ask.known.empty[asked[at]] = false
  end
end

-- Finds empty queues from number i on, among the queues with the chosen mark, or all. Most are
-- empty, so this takes few commands.
local function look_ahead(ask, known, i, all) -- cold
  local asked = {}
  while i <= #ask.queues and #asked < known.step do
    local wanted = all or string.sub(known.marks, i, i) == known.chosen
    if wanted and known.empty[i] == nil and ask.paused[i] ~= 1 then
      asked[#asked + 1] = i
    end
    i = i + 1
  end
  known.step = math.min(4 * known.step, MAX_STEP)
  tell_all_apart(ask, asked)
end

-- Reports whether a queue is not paused, and may have something to take.
local function is_open(ask, i)
  local known = ask.known
  if known and ask.paused[i] ~= 1 and known.empty[i] == nil then
    look_ahead(ask, known, i, true)
  end
  return ask.paused[i] ~= 1 and not (known and known.empty[i])
end

-- Reports whether a queue has nothing to take, now or later. A single queue is not worth a command.
local function is_empty(ask, i)
  local known = ask.known
  if not known then
    return false
  end
  if known.empty[i] == nil then
    look_ahead(ask, known, i)
  end
  if known.empty[i] then
    known.found[#known.found + 1] = i
  end
  return known.empty[i]
end
