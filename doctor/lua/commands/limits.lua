-- limits: jobs with a slot of a limit are running, jobs waiting for a slot are parked, and
-- definitions can be read.
--
-- Items  x:limit:<name>:held jid, x:limit:<name>:wait jid, x:limits name

local function check_member(key, jid, kind, belongs)
  if not belongs and score_at(key, jid) then
    diagnose(kind, key, jid, state_of(jid) or 'gone', function()
      call('zrem', key, jid)
    end)
  end
end

return each(function(name, member, key)
  local held, wait = between(name, 'x:limit:', ':held'), between(name, 'x:limit:', ':wait')
  if held then
    check_member(key, member, 'slot_left', state_of(member) == 'running')
  elseif wait then
    local job = fields_of(member)
    check_member(key, member, 'parked_left', job and limit_of(job) == wait)
  else
    local text = try('hget', key, member)
    local is_hold = string.sub(member, -5) == ' hold'
    if type(text) == 'string' and not (is_hold and finite(text)) and
      not string.find(text, '^%d+ %d+ %S+$') then
      diagnose('limit_damaged', key, member, string.sub(text, 1, 100), false)
    end
  end
end)
