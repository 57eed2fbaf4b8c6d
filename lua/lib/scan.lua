-- Reading sets and hashes with many members in parts. A member that exists all the time is in at
-- least one of the parts, in no order. A small set is one part.

-- The approximate number of members of a part.
local SCANNED = 500

-- The cursor of a part, which is '' for the first one.
local function scan_cursor(area, cursor) -- cold
  if cursor == '' then
    return '0'
  elseif not string.find(cursor, '^%d+$') or tonumber(cursor) >= 2 ^ 64 then
    reject(area, 'Arg "cursor" is no cursor: ' .. string.sub(cursor, 1, 200))
  end
  return cursor
end

-- The cursor of the next part, which is '' at the end, from the reply of a scan.
local function next_part(reply) -- cold
  return reply[1] == '0' and '' or reply[1]
end
