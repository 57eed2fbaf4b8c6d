-- The registry of workers: x:worker:<name> is SEEN|STARTED|JSON, as the worker last reported. It
-- lasts as long as the worker is listed, so a dead worker is still described.

-- How long a worker counts as running after it has registered, in seconds.
local REGISTERED = 150

local function registry_key(worker)
  return prefix .. 'x:worker:' .. worker
end

-- The registration of a worker, or nil, and whether the worker has gone since.
local function registration(worker)
  local text = try('get', registry_key(worker))
  local seen = type(text) == 'string' and finite(string.match(text, '^[^|]*'))
  if seen then
    return text, seen <= now - REGISTERED
  end
end
