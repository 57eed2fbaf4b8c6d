-- Reading large sets and hashes in parts. A member present all the time is in at least one part, in
-- no order. A small set is one part.

-- The approximate number of members in a part.
local SCANNED = 500

-- Returns the cursor to scan from; '' means the first part.
local function scan_cursor(area, cursor) -- cold
  if cursor == '' then
    return '0'
  elseif not string.find(cursor, '^%d+$') or tonumber(cursor) >= 2 ^ 64 then
    reject(area, 'Arg "cursor" is no cursor: ' .. string.sub(cursor, 1, 200))
  end
  return cursor
end

-- Returns the cursor of the next part from the reply of a scan, or '' at the end.
local function next_part(reply) -- cold
  return reply[1] == '0' and '' or reply[1]
end
