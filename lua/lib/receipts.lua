-- Receipts of jobs to put only once, such as an outbox's. x:outbox:put has the jids by the times at
-- which the receipts end. A job with a receipt is not put again, even after its record is gone.

-- The seconds for which a receipt is kept until the sender has settled the job, and after that,
-- while a copy of the call may be on its way.
local RECEIPT, SETTLED = 604800, 60

-- Puts the jobs without receipts, and gives them receipts. Returns what put returns, with the state
-- "put" for jobs that had receipts.
local function put_once(puts) -- cold
  local key, items, positions, left = prefix .. 'x:outbox:put', puts.items, {}, {}
  local jids = jids_of(items)
  local ends = call('zmscore', key, unpack(jids))
  for i = 1, #items do
    if ends[i] then
      items[i].left = 'put'
      left[#left + 1] = {i - 1, jids[i], 'put'}
    else
      positions[#positions + 1] = i - 1
    end
  end
  drop_left(puts)
  local refused = {}
  for _, found in ipairs(#positions > 0 and put(puts) or none) do
    found[1] = positions[found[1] + 1]
    refused[found[1]] = found[3] ~= 'replaced'
    left[#left + 1] = found
  end
  local receipts = {}
  for _, place in ipairs(positions) do
    if not refused[place] then
      add_pair(receipts, exact(now + RECEIPT), jids[place + 1])
    end
  end
  each_slice(try, 'zadd', key, receipts)
  local over = try('zrangebyscore', key, '-inf', stamp, 'limit', 0, 1000)
  each_slice(try, 'zrem', key, over)
  return left
end
