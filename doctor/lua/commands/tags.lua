-- tags: a tag's members are jobs with the tag, and its counter is their number.
--
-- Items  t:<tag> jid, tags tag, t:<tag>

local function check_counter(tag)
  local count = try('zcard', prefix .. 't:' .. tag)
  local told = score_at(prefix .. 'tags', tag)
  if type(count) == 'number' and count ~= (told or 0) then
    local details = (told or 'no') .. ' instead of ' .. count
    diagnose('tag_count', prefix .. 'tags', tag, details, function()
      if count > 0 then
        call('zadd', prefix .. 'tags', count, tag)
      else
        call('zrem', prefix .. 'tags', tag)
      end
    end, prefix .. 'tags', 'zset')
  end
end

local function has_tag(job, tag)
  for _, its in ipairs(list_of(job.tags)) do
    if tostring(its) == tag then
      return true
    end
  end
end

return each(function(name, member, key)
  local tag = string.sub(name, 3)
  if name == 'tags' then
    check_counter(member)
    return
  elseif member == '' then
    if not score_at(prefix .. 'tags', tag) then
      check_counter(tag) -- others are checked with the counters
    end
    return
  end
  local job = fields_of(member)
  if job and has_tag(job, tag) or not score_at(key, member) then
    return
  end
  diagnose(job and 'tag_extra' or 'ghost', key, member, '', function()
    remove_tags(member, {tag}, 1)
  end)
end)
