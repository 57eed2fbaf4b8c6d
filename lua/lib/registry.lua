-- The registry of workers: x:worker:<name> is SEEN|STARTED|JSON, as last reported by the worker. It
-- is kept as long as the worker is listed, so a dead worker still has a description.

-- How long a worker counts as running after registering, in seconds.
local REGISTERED = 150

local function registry_key(worker)
  return prefix .. 'x:worker:' .. worker
end

-- Returns a worker's registration, or nil, and whether the worker is gone since.
local function registration(worker)
  local text = try('get', registry_key(worker))
  local seen = type(text) == 'string' and finite(string.match(text, '^[^|]*'))
  if seen then
    return text, seen <= now - REGISTERED
  end
end
