-- Rare preparations of a put: leaving old places, claiming unique keys, and linking dependencies.

-- Removes an existing job from all places of its old state.
local function leave(item, worker) -- cold
  local jid, old = item.jid, item.old
  local queue, owner = old.queue, old.worker
  adopt_history(jid, old.history)
  if queue then
    leave_queue(queue, jid)
  end
  if owner and owner ~= '' then
    try('zrem', worker_key(owner), jid)
    old.lost = owner ~= worker
    if old.state == 'running' and queue then
      wake_for_slot(queue)
    end
  end
  if old.state == 'complete' then
    try('zrem', prefix .. 'completed', jid)
  elseif old.state == 'failed' then
    forget_failure(jid, queue, old.failure)
  end
  if old.grace then
    call('hdel', item.key, 'grace')
  end
  local keeps_turn = item.score and item.given.share
  if old.stored and has_option(old.stored, FAIR) and old.state == 'waiting' and
    queue and not keeps_turn then
    leave_turns(queue, old.priority)
  end
  if old.limits then
    leave_limits(jid, old.limits)
  end
  if old.optionless then
    call('hdel', item.key, 'x:o')
  end
  remove_tags(jid, difference(old.tags, item.tags, 1), 1)
  for _, other in ipairs(old.ended) do
    undepend(jid, other)
  end
end

-- Removes the items that leave a job unchanged from all lists of a put.
local function drop_left(puts)
  for _, items in ipairs({puts.items, unpack(puts.groups)}) do
    local kept = 0
    for i = 1, #items do
      local item = items[i]
      items[i] = nil
      if not item.left then
        kept = kept + 1
        items[kept] = item
      end
    end
  end
end

-- Makes a job wait for others, or fails before the first write.
local function must_link(jid, others, added) -- cold
  local failed = link(jid, others, added)
  if failed then
    call('sadd', failed.key, failed.member) -- the same error, for the caller
  end
end

-- Makes a batch wait for more members. Returns the number of new members.
local function link_members(jid, members, added) -- cold
  local dependencies = job_key(jid) .. '-dependencies'
  local before = call('scard', dependencies)
  must_link(jid, members, added)
  return call('scard', dependencies) - before
end

-- Prepares for writing jobs that exist, claim unique keys, have dependencies, or go into several
-- sets. Reads the necessary fields, removes the jobs from their old places, and links their
-- dependencies. Drops puts that leave a job unchanged. fresh means none of the jobs exists. Returns
-- a list of the dropped puts: place in the order from 0, jid and state, except for jobs put by an
-- earlier try of the same call. Puts that replace a job are also listed, with its jid, and
-- "replaced" as the state.
local function prepare(puts, fresh) -- cold
  local before, claims, added, found, asked, refused = {}, {}, {}, {}, {}, {}
  local unheld = puts.claiming and all_free(puts.items)
  for i, item in ipairs(puts.items) do
    item.depends, item.given = item.depends or none, item.given or none
    read_before(puts, item, before, claims, fresh, unheld)
    if not item.left then
      local part = item.waits and 'depends' or item.delay > 0 and 'scheduled' or 'work'
      local key = queue_key(item.queue, part)
      if not asked[key] then
        asked[key] = true
        call('zcard', key) -- fails unless jobs can be added there
      end
      before[item.jid] = 'put'
      found[#found + 1] = item.replaces and {i - 1, item.jid, 'replaced'} or nil
    elseif item.holder or item.checked ~= 'new' and not item.given.replace then
      found[#found + 1] = {i - 1, item.holder or item.jid, item.left}
      refused[#refused + 1] = item.left == 'scheduled' and item.holder or nil
    end
  end
  drop_left(puts)
  if puts.batches then
    read_batches('Put', puts.batches, puts.items)
  end
  if not fresh then
    refuse_circles(puts.items)
  end
  for _, item in ipairs(puts.items) do
    if #item.others > 0 then
      must_link(item.jid, item.others, added)
    end
  end
  for jid, batch in pairs(puts.batches or none) do
    batch.count = link_members(jid, batch.members, added)
  end
  write_claims(puts.items)
  for i = 1, #refused do
    note_refused(refused[i])
  end
  for _, item in ipairs(puts.items) do
    local before_it = item.claim and item.claimed and claim_of(item.claimed)
    if before_it and before_it.k ~= item.claim.k then
      release_claim(item.jid, item.claimed, 'canceled') -- the key that the job held before
    end
    if item.old then
      leave(item, puts.worker)
    end
  end
  return found
end
