-- fail: fails a worker's job. It stays in a failure group until it is moved or canceled.
--
-- Args     jid, worker, group, message [, data [, result [, since]]]
--          since: only if this run began at this time, unless ''; then result may be '', too
-- Returns  the jid
-- Errors   Fail() when the job is not this worker's or not running
-- Cost     11 commands; notifies at most 200 jobs that wait for this one
-- For      classic
-- Repeat   once
-- Hot

local jid = required('Job', 'jid', ARGV[3])
local worker = required('Fail', 'worker', ARGV[4])
local group = required('Fail', 'group', ARGV[5])
local message, data = required('Fail', 'message', ARGV[6]), ARGV[7]
if data then
  json('Fail', 'data', data)
end
local item = {
  jid = jid, group = group, message = message, data = data or '', since = not_empty(ARGV[9]),
}
if ARGV[8] and (ARGV[8] ~= '' or not ARGV[9]) then
  item.result = strict_json('Fail', 'result', ARGV[8])
end

must_publish()
raise_any('Fail', fail(worker, item))
return jid
