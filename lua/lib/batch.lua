-- Batches. A batch is a job with the option b, {"n": number of members}. The job depends on all
-- members and, while the batch is open, on OPEN.

-- Reads the options and the state of a batch. To take members, it must still have dependencies.
local function read_batch(area, jid, takes) -- cold
  local state, stored = unpack(call('hmget', job_key(jid), 'state', 'x:o'))
  if takes and state ~= 'depends' then
    raise(area, not_depending(jid, state))
  elseif not state then
    raise(area, no_job(jid))
  elseif not (stored and has_option(stored, BATCH)) then
    raise(area, new_problem('invalid', jid, 'is not a batch'))
  end
  return stored, state
end

-- Reads the batches of items, and lists the new members of each. A new job without dependencies
-- can't wait for its own batch.
local function read_batches(area, batches, items) -- cold
  for _, item in ipairs(items) do
    local jid = item.given.batch
    if jid then
      local batch = batches[jid]
      batch.stored = batch.stored or read_batch(area, jid, true)
      if item.old or #item.depends > 0 then
        batch.waiting = batch.waiting or waiting_for(jid, changes_of(items))
      end
      if batch.waiting and batch.waiting[item.jid] then
        raise(area, new_problem('invalid', item.jid, 'would wait for its own batch'))
      end
      batch.members[#batch.members + 1] = item.jid
    end
    if batches[item.jid] then
      raise(area, new_problem('invalid', item.jid, 'is put together with its members'))
    end
  end
end

-- Adds the number of new members to each batch.
local function grow_batches(batches) -- cold
  for jid, batch in pairs(batches) do
    if #batch.members > 0 then
      local values, letters = split_options(batch.stored)
      local own = type(values[BATCH]) == 'table' and values[BATCH] or {}
      own.n = finite(own.n, 0) + batch.count
      values[BATCH] = own
      call('hset', job_key(jid), 'x:o', join_options(letters, values))
    end
  end
end
