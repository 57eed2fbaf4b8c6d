-- The history of queues. x:history:<queue> is a string of bytes, as is x:history for all queues
-- together. It begins with the minute of the last record and that day's failures so far, 4 bytes
-- each. Three rings of records follow: one for each minute of three hours, each five minutes of a
-- day, and each hour of 30 days. The records of a ring are numbered since 1970, and a record
-- replaces the one a whole ring older. Numbers begin with the highest byte:
--
--   2 bytes  64 * lap + known: how often the ring was full before, modulo 1024, and the number of
--            minutes with recorded figures
--   4, 3, 3  waiting jobs; the longest wait, in seconds; running jobs
--   2, 3     workers; jobs failed in this time
--
-- If x:history has a record that a queue lacks, the queue had no jobs, workers and failures.

local PAST_HEAD = 8
local PAST_RECORD = 17
local PAST_LENGTH = 20204

-- How long a queue's history is kept after the last record, in seconds: 31 days.
local PAST_KEPT = 2678400

local function past_key(queue)
  return prefix .. 'x:history:' .. queue
end

-- Returns how many records the ring for a step in seconds has, and where it begins; or nil.
local function ring_of(step) -- cold
  if step == 60 then
    return 180, PAST_HEAD
  elseif step == 300 then
    return 288, PAST_HEAD + 180 * PAST_RECORD
  elseif step == 3600 then
    return 720, PAST_HEAD + (180 + 288) * PAST_RECORD
  end
end

-- Reports whether this minute's figures are still due for recording. A fast or slow clock delays
-- this by at most two minutes, until x:recorded expires.
local function is_record_due() -- cold
  return finite(try('get', prefix .. 'x:recorded'), -1) < math.floor(now / 60)
end
