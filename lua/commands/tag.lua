-- tag: adds or removes tags of a job, or lists the jobs of a tag or the most used tags.
--
-- Args     'add' or 'remove', jid, tag... / 'get', tag, offset, count /
--          'top', offset, count [, 'total']
-- Returns  add, remove: JSON of the job's tags; get: JSON {total, jobs};
--          top: JSON of the tags with two or more jobs, most used first; with 'total',
--          JSON {total, tags}, where total is the number of such tags
-- Errors   Tag()
-- Cost     2 commands, 2 for each tag
-- For      classic
-- Repeat   safe

local action = ARGV[3]
if not action then
  reject('Tag', 'Arg "command" must be "add", "remove", "get" or "top"')
end

if action == 'add' or action == 'remove' then
  local jid = required('Tag', 'jid', ARGV[4])
  local stored = call('hget', job_key(jid), 'tags')
  if not stored then
    raise('Tag', no_job(jid))
  end
  local text = change_tags(jid, stored, action == 'add', ARGV, 5)
  call('hset', job_key(jid), 'tags', text)
  return text
elseif action == 'get' then
  local key = prefix .. 't:' .. required('Tag', 'tag', ARGV[4])
  local offset = integer('Tag', 'offset', ARGV[5] or 0)
  local count = integer('Tag', 'count', ARGV[6] or 25)
  local jids = call('zrange', key, offset, offset + count - 1)
  return '{"total":' .. call('zcard', key) .. ',"jobs":' .. array(jids) .. '}'
elseif action == 'top' then
  local offset = integer('Tag', 'offset', ARGV[4] or 0)
  local count = integer('Tag', 'count', ARGV[5] or 25)
  local key = prefix .. 'tags'
  if ARGV[6] == 'total' then
    -- By rank, because a range of scores walks over all members before the offset.
    local total = call('zcount', key, 2, '+inf')
    local last = math.min(offset + count, total) - 1
    local tags = last >= offset and call('zrevrange', key, offset, last) or {}
    return '{"total":' .. total .. ',"tags":' .. array(tags) .. '}'
  end
  return array(call('zrevrangebyscore', key, '+inf', 2, 'LIMIT', offset, count))
end
reject('Tag', 'First argument must be "add", "remove", "get" or "top"')
