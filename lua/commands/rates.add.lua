-- rates.add: adds a worker's counts to the rates of a minute, once.
--
-- Args     run, number, age, then for each queue and klass, at most 1000: queue, klass, counts
--          run     identifies the sender; x:rates:sent:<run> holds its last number
--          number  greater than the last one, or equal to repeat a call
--          age     in seconds: selects the minute of the counts
--          counts  a value, in the format of lib/rates.lua
-- Returns  1, or 0 if the counts were added before, or are too old
-- Errors   Rates.add()
-- Cost     6 commands, 7 for the first of a minute
-- For      Go
-- Repeat   safe

local run = named('Rates.add', 'run', ARGV[3])
local sent = whole('Rates.add', 'number', ARGV[4])
local began = math.min(now - number('Rates.add', 'age', ARGV[5]), now)
if (#ARGV - 5) % 3 ~= 0 then
  reject('Rates.add', 'Each klass needs 3 args')
end
if #ARGV > 5 + 3 * 1000 then
  reject('Rates.add', 'More than 1000 klasses')
end

-- The parts of a value, or nil if it is not one.
local function parts_of(counts)
  return string.match(counts, '^(%d+),(%d+),(%d+)|([%d: ]*)|([%d: ]*)$')
end

-- The sum of two histograms.
local function sum_histograms(one, other)
  local counts, order = {}, {}
  for bucket, count in string.gmatch(one .. ' ' .. other, '(%d+):(%d+)') do
    if not counts[bucket] then
      order[#order + 1] = bucket
    end
    counts[bucket] = (counts[bucket] or 0) + count
  end
  for i = 1, #order do
    order[i] = order[i] .. ':' .. string.format('%d', counts[order[i]])
  end
  return table.concat(order, ' ')
end

-- The sum of two values. A damaged or missing one counts as zero.
local function sum(stored, added)
  local completed, failed, retried, wait, ran = parts_of(stored or '')
  if not completed then
    return added
  end
  local more = {parts_of(added)}
  return string.format('%d,%d,%d|', completed + more[1], failed + more[2], retried + more[3]) ..
    sum_histograms(wait, more[4]) .. '|' .. sum_histograms(ran, more[5])
end

-- The values by field, and the fields, the rest first.
local added, fields = {}, {REST}
for i = 6, #ARGV, 3 do
  local field, counts = rate_field(ARGV[i], ARGV[i + 1]), ARGV[i + 2]
  if not parts_of(counts) then
    reject('Rates.add', 'Arg "counts" is not of the known form: ' .. string.sub(counts, 1, 200))
  end
  if not added[field] and field ~= REST then
    fields[#fields + 1] = field
  end
  added[field] = sum(added[field], counts)
end

if began < now - KEPT or finite(call('get', prefix .. 'x:rates:sent:' .. run), -1) >= sent then
  return 0
end
local key = rates_key(began)
local stored, count = call('hmget', key, unpack(fields)), call('hlen', key)
local update, fresh, rest = {}, count == 0, added[REST]
for i = 2, #fields do
  local field = fields[i]
  if stored[i] or count < MAX_NAMES then
    count = stored[i] and count or count + 1
    add_pair(update, field, sum(stored[i], added[field]))
  else
    rest = sum(rest, added[field])
  end
end
if rest then
  add_pair(update, REST, sum(stored[1], rest))
end
call('set', prefix .. 'x:rates:sent:' .. run, ARGV[4], 'EX', REMEMBERED)
if #update > 0 then
  try('hset', key, unpack(update))
end
if fresh then
  try('expire', key, KEPT)
end
return 1
