-- The history of queues. x:history:<queue> is a string of bytes, and so is x:history, of all queues
-- together. It begins with the minute of the last record and the failures of its day until then,
-- each of 4 bytes. Three rings of records follow: one for each minute of three hours, each five
-- minutes of a day, and each hour of 30 days. The records of a ring are numbered since 1970, and a
-- record replaces the one that is a whole ring older. Numbers begin with the highest byte:
--
--   2 bytes  64 * lap + known: how often the ring was full before, modulo 1024, and in how many
--            minutes figures were recorded
--   4, 3, 3  waiting jobs; the longest wait, in seconds; running jobs
--   2, 3     workers; jobs that have failed in this time
--
-- A queue without a record had no jobs, workers and failures if x:history has one.

local PAST_HEAD = 8
local PAST_RECORD = 17
local PAST_LENGTH = 20204

-- How long the history of a queue is kept after its last record, in seconds: 31 days.
local PAST_KEPT = 2678400

local function past_key(queue)
  return prefix .. 'x:history:' .. queue
end

-- The number of records of the ring for a length of time, in seconds, and the place of its first
-- byte; or nil.
local function ring_of(step) -- cold
  if step == 60 then
    return 180, PAST_HEAD
  elseif step == 300 then
    return 288, PAST_HEAD + 180 * PAST_RECORD
  elseif step == 3600 then
    return 720, PAST_HEAD + (180 + 288) * PAST_RECORD
  end
end

-- Whether the figures of this minute are still to be recorded. A clock that was too early or too
-- late delays this by two minutes at most, when x:recorded expires.
local function is_record_due() -- cold
  return finite(try('get', prefix .. 'x:recorded'), -1) < math.floor(now / 60)
end
