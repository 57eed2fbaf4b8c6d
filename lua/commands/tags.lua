-- tags: the tags of existing jobs. For clients in PHP.
--
-- Args     offset, count
-- Returns  a JSON array
-- Errors   Tags()
-- Cost     1 command
-- For      PHP
-- Repeat   safe

local offset = whole('Tags', 'offset', ARGV[3])
local count = whole('Tags', 'count', ARGV[4])
if count == 0 then
  reject('Tags', 'Arg "count" is 0')
end
return array(call('zrangebyscore', prefix .. 'tags', '(0', '+inf', 'LIMIT', offset, count))
