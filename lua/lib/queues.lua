-- Iterating over all known queues, some in each call.
--
-- A cursor is a letter, k for the queues known to all clients and x for the others, followed by a
-- cursor of that list.

-- Calls visit with at most count queues after a cursor, until visit returns true. Returns the
-- cursor of the last queue, or '' if there are no more.
local function each_queue(area, cursor, count, visit) -- cold
  local letter, place = string.sub(cursor, 1, 1), string.sub(cursor, 2)
  for _, part in ipairs({{'k', 'queues'}, {'x', 'x:queues'}}) do
    if letter == '' or letter == part[1] then
      local key = prefix .. part[2]
      local list = {kind = 'queues', key = key, from = 0, total = finite(try('zcard', key), 0)}
      local offset = after_cursor(area, list, place)
      local some, scores = read_list(list, offset, count)
      for i = 1, #some do
        count = count - 1
        if visit(some[i]) or count == 0 then
          return part[1] .. cursor_at(list, offset + i - 1, some[i], scores[i])
        end
      end
      letter, place = '', ''
    end
  end
  return ''
end
