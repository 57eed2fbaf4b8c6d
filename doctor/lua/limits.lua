-- limits: who has a slot of a limit runs, who waits for one is parked, and definitions can be read.
--
-- Items  x:limit:<name>:held jid, x:limit:<name>:wait jid, x:limits name

local function check_member(key, jid, kind, belongs)
  if not belongs and score_in(key, jid) then
    problem(kind, key, jid, state_of(jid) or 'gone', function()
      call('zrem', prefix .. key, jid)
    end)
  end
end

return each(function(key, member)
  local held, wait = between(key, 'x:limit:', ':held'), between(key, 'x:limit:', ':wait')
  if held then
    check_member(key, member, 'slot_left', state_of(member) == 'running')
  elseif wait then
    local job = read_job(member)
    check_member(key, member, 'parked_left', job and parked_by(job) == wait)
  else
    local text = try('hget', prefix .. key, member)
    local is_hold = string.sub(member, -5) == ' hold'
    if type(text) == 'string' and not (is_hold and finite(text)) and
      not string.find(text, '^%d+ %d+ %S+$') then
      problem('limit_damaged', key, member, string.sub(text, 1, 100), false)
    end
  end
end)
