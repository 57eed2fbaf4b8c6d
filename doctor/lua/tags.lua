-- tags: the members of a tag are jobs that have it, and the counter of a tag says how many there are.
--
-- Items  t:<tag> jid, tags tag, t:<tag>

local function remove_tag(tag, jid)
  call('zrem', prefix .. 't:' .. tag, jid)
  if tonumber(call('zincrby', prefix .. 'tags', -1, tag)) <= 0 then
    call('zrem', prefix .. 'tags', tag)
  end
end

local function check_counter(tag)
  local count = try('zcard', prefix .. 't:' .. tag)
  local told = score_in('tags', tag)
  if type(count) == 'number' and count ~= (told or 0) then
    problem('tag_count', 'tags', tag, (told or 'no') .. ' instead of ' .. count, function()
      if count > 0 then
        call('zadd', prefix .. 'tags', count, tag)
      else
        call('zrem', prefix .. 'tags', tag)
      end
    end)
  end
end

local function has_tag(job, tag)
  for _, its in ipairs(decoded(job.tags)) do
    if tostring(its) == tag then
      return true
    end
  end
end

return each(function(key, member)
  local tag = string.sub(key, 3)
  if key == 'tags' then
    check_counter(member)
    return
  elseif member == '' then
    if not score_in('tags', tag) then
      check_counter(tag) -- others are checked where the counters are
    end
    return
  end
  local job = read_job(member)
  if job and has_tag(job, tag) or not score_in(key, member) then
    return
  end
  problem(job and 'tag_extra' or 'ghost', key, member, '', function()
    remove_tag(tag, member)
  end)
end)
