-- Batches: a job with the option b, {"n": number of members}, depends on its members and, as long
-- as the batch is open, on OPEN.

-- Whether the options text is that of a batch.
local function is_batch(stored) -- cold
  return stored and has_option(stored, BATCH)
end

local function no_batch(jid) -- cold
  return new_problem('invalid', jid, 'is not a batch')
end

-- Reads a batch, which must still wait for something.
local function read_batch(area, jid) -- cold
  local state, stored = unpack(call('hmget', job_key(jid), 'state', 'x:o'))
  if state ~= 'depends' then
    raise(area, not_depending(jid, state))
  elseif not is_batch(stored) then
    raise(area, no_batch(jid))
  end
  return stored
end

-- Reads the batches whose members items become, and lists these. A new job without dependencies
-- can't wait for its own batch.
local function read_batches(area, batches, items) -- cold
  for _, item in ipairs(items) do
    local jid = item.given.batch
    if jid then
      local batch = batches[jid]
      batch.stored = batch.stored or read_batch(area, jid)
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

-- Counts the new members of batches.
local function grow_batches(batches) -- cold
  for jid, batch in pairs(batches) do
    if #batch.members > 0 then
      local letters, values = split_options(batch.stored)
      local own = type(values[BATCH]) == 'table' and values[BATCH] or {}
      own.n = finite(own.n, 0) + batch.count
      values[BATCH] = own
      call('hset', job_key(jid), 'x:o', join_options(letters, values))
    end
  end
end
