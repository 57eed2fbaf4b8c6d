-- failures: counts the jobs of a failure group by klass, latest failure first. Changes nothing.
--
-- Args     group, cursor of the last call or '', count (at most 1000)
-- Returns  JSON {total, looked, cursor, klasses: [{klass, count, first, last, message, jid}, ...]}:
--          the size of the group, the number of jobs examined, the next cursor, empty at the end,
--          and for each klass its failures, the times of the first and the last, and the message
--          and the jid of the last
-- Errors   Failures()
-- Cost     3 commands, and 1 for each job that it looks at
-- For      Go
-- Repeat   safe

local klasses, found = {}, {}

local function count_failure(jid)
  local name, failure = unpack(try('hmget', job_key(jid), 'klass', 'failure'))
  name, failure = name or '', list_of(failure)
  local klass, at = klasses[name], finite(failure.when)
  if not klass then
    klass = {klass = name, count = 0}
    klasses[name], found[#found + 1] = klass, klass
  end
  klass.count = klass.count + 1
  if at and (not klass.last or at > klass.last) then
    local message = type(failure.message) == 'string' and failure.message or ''
    klass.last, klass.message, klass.jid = at, string.sub(message, 1, SHOWN_MESSAGE), jid
  end
  klass.first = at and math.min(klass.first or at, at) or klass.first
end

local group = named('Failures', 'group', ARGV[3])
local cursor = required('Failures', 'cursor', ARGV[4])
local count = whole('Failures', 'count', ARGV[5])
if count < 1 or count > 1000 then
  reject('Failures', 'Arg "count" is not from 1 to 1000: ' .. ARGV[5])
end
local list = open_list('Failures', 'failed', group)
local jids, looked, next_cursor = search('Failures', list, cursor, count, 0, none)
for i = 1, #jids do
  count_failure(jids[i])
end
return '{"total":' .. list.total .. ',"looked":' .. looked .. ',"cursor":' ..
  cjson.encode(next_cursor) .. ',"klasses":' .. array(found) .. '}'
