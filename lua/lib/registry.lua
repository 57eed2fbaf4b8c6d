-- The registry of workers: x:worker:<name> is SEEN|STARTED|JSON, as the worker said last. It
-- expires unless the worker registers again.

-- How long a worker is registered, in seconds.
local REGISTERED = 150

local function registry_key(worker)
  return prefix .. 'x:worker:' .. worker
end
