-- The rates of the last days. x:rates:<minute> is a hash for each minute, named by its beginning.
-- Its fields are BYTES:QUEUE:KLASS, with the length of the queue's name, or 0:: for names beyond
-- the limit. Each value is COMPLETED,FAILED,RETRIED|WAIT|RUN. WAIT and RUN are histograms,
-- BUCKET:COUNT with spaces between, of buckets from 0 to 80: bucket 0 has durations of less than 1
-- us, and bucket n durations from 2^((n-1)/2) us on.

-- How long rates are kept, in seconds: 3 days.
local KEPT = 259200

-- How long the number of a worker's last part is kept, in seconds.
local REMEMBERED = 1800

-- The maximum number of pairs of queue and klass in a minute. All others are counted together.
local MAX_NAMES = 500

local REST = '0::'

-- Returns the key of the minute that contains a time.
local function rates_key(at)
  return prefix .. 'x:rates:' .. string.format('%d', at - at % 60)
end

local function rate_field(queue, klass)
  return #queue .. ':' .. queue .. ':' .. klass
end
