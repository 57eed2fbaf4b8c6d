-- multiget: several jobs.
--
-- Args     [x:due, to include due times,] jid...
-- Returns  a JSON array of the existing jobs. With x:due, large data is separate: an array of the
--          JSON, where beside names a job's data; a JSON array of the jids left for another call,
--          or ''; and the data. Thousands of dependents and dependencies are named in left_out
--          instead
-- Cost     4 commands a job, and more of one as for get
-- For      classic
-- Repeat   safe

local asks_due = ARGV[3] == 'x:due'
local found = {}
budget.relations = asks_due and MAX_RELATED
for i = asks_due and 4 or 3, #ARGV do
  if asks_due and not has_room(ARGV[i]) then
    return with_large(joined(found), array({unpack(ARGV, i)}))
  end
  local text = find_job(try, ARGV[i], asks_due)
  found[#found + 1] = text
  budget.text = budget.text - #(text or '')
end
return with_large(joined(found), '')
