-- tag: adds or removes tags of a job, lists the jobs of a tag, or the most used tags.
--
-- KEYS[1]  the namespace prefix
-- ARGV     NOW, 'add' or 'remove', jid, tag... / 'get', tag, offset, count /
--          'top', offset, count [, 'total']
-- Returns  add, remove: JSON of the job's tags; get: JSON {total, jobs};
--          top: JSON of the tags that two or more jobs have, most first; with 'total',
--          JSON {total, tags}, total being how many such tags there are
-- Errors   Tag()
-- Cost     2 commands, 2 for each tag
-- Repeat   safe
-- Needs    hget hset time zadd zcard zcount zincrby zrange zrem zrevrange zrevrangebyscore

local call = redis.call
local prefix = KEYS[1]

local function required(area, name, text)
  if not text then
    local words = {
      Job = 'no jid provided', Recurring = 'no jid provided', Queue = 'no queue name provided',
    }
    do
      local area, message = area, words[area] or 'Arg "' .. name .. '" missing'
      error(area .. '(): ' .. message)
    end
  end
  return text
end
local function integer(area, name, text)
  local value
  do
    local area, name, text = area, name, text
    local n = tonumber(text)
    if not n or n - n ~= 0 then
      local words = {
        Failed = 'is not', Peek = 'missing or not', Pop = 'missing or not',
        Priority = 'missing or not', Stats = 'missing or not',
      }
      do
        local area, message = area, 'Arg "' .. name .. '" ' .. (words[area] or 'not') .. ' a number: ' .. tostring(text)
        error(area .. '(): ' .. message)
      end
    end
    value = n
  end
  if value % 1 ~= 0 or math.abs(value) > 2147483647 then
    do
      local area, message = area, 'Arg "' .. name .. '" is not a whole number: ' .. text
      error(area .. '(): ' .. message)
    end
  end
  return value
end



local function array(list)
  if #list == 0 then
    return '[]'
  end
  return cjson.encode(list)
end

local stamp, usual = ARGV[1], true
if stamp == '' then
  local time = call('time')
  stamp = time[1] .. string.format('.%06d', time[2])
else
  usual = stamp and string.find(stamp, '^%d+%.?%d*$')
end
local now = usual and stamp + 0 or tonumber(stamp)
if not now or now - now ~= 0 then
  error('Arg "now" missing or not a number: ' .. tostring(stamp))
end
if not usual then
  stamp = string.format('%.17g', now)
end


local function change_tags(jid, stored, adds, list, first)
local try = redis.pcall
local function finite(text, default)
  local n = text and tonumber(text)
  if n and n - n == 0 then
    return n
  end
  return default
end
local function list_of(text)
  if not text then
    return {}
  end
  local ok, list = pcall(cjson.decode, text)
  if ok and type(list) == 'table' then
    return list
  end
  return {}
end
local function names_of(text)
  local found = {}
  for _, name in ipairs(list_of(text)) do
    if type(name) == 'string' or type(name) == 'number' then
      found[#found + 1] = tostring(name)
    end
  end
  return found
end
local function union(list, more, first)
  local has = {}
  for i = 1, #list do
    has[list[i]] = true
  end
  for i = first, #more do
    if not has[more[i]] then
      has[more[i]] = true
      list[#list + 1] = more[i]
    end
  end
  return list
end
local function difference(list, other, first)
  local gone, kept = {}, {}
  for i = first, #other do
    gone[other[i]] = true
  end
  for i = 1, #list do
    if not gone[list[i]] then
      kept[#kept + 1] = list[i]
    end
  end
  return kept
end
local function add_tag(jid, tag)
  if try('zadd', prefix .. 't:' .. tag, stamp, jid) == 1 then
    try('zincrby', prefix .. 'tags', 1, tag)
  end
end
local function add_tags(jid, tags, first)
  for i = first, #tags do
    add_tag(jid, tags[i])
  end
end
local function remove_tags(jid, tags, first)
  for i = first, #tags do
    do
      local jid, tag = jid, tags[i]
      if try('zrem', prefix .. 't:' .. tag, jid) == 1 then
        if finite(try('zincrby', prefix .. 'tags', -1, tag), 1) <= 0 then
          call('zrem', prefix .. 'tags', tag)
        end
      end
    end
  end
end
  local tags = names_of(stored)
  if adds then
    local known = #tags
    tags = union(tags, list, first)
    add_tags(jid, tags, known + 1)
  else
    tags = difference(tags, list, first)
    remove_tags(jid, list, first)
  end
  return array(tags)
end

local action = ARGV[2]
if not action then
  do
    local area, message = 'Tag', 'Arg "command" must be "add", "remove", "get" or "top"'
    error(area .. '(): ' .. message)
  end
end
if action == 'add' or action == 'remove' then
  local jid = required('Tag', 'jid', ARGV[3])
  local stored = call('hget', prefix .. 'j:' .. jid, 'tags')
  if not stored then
    do
      local area, message = 'Tag', 'Job ' .. jid .. ' does not exist'
      error(area .. '(): ' .. message)
    end
  end
  local text = change_tags(jid, stored, action == 'add', ARGV, 4)
  call('hset', prefix .. 'j:' .. jid, 'tags', text)
  return text
elseif action == 'get' then
  local key = prefix .. 't:' .. required('Tag', 'tag', ARGV[3])
  local offset = integer('Tag', 'offset', ARGV[4] or 0)
  local count = integer('Tag', 'count', ARGV[5] or 25)
  local jids = call('zrange', key, offset, offset + count - 1)
  return '{"total":' .. call('zcard', key) .. ',"jobs":' .. array(jids) .. '}'
elseif action == 'top' then
  local offset = integer('Tag', 'offset', ARGV[3] or 0)
  local count = integer('Tag', 'count', ARGV[4] or 25)
  local key = prefix .. 'tags'
  if ARGV[5] == 'total' then
    local total = call('zcount', key, 2, '+inf')
    local last = math.min(offset + count, total) - 1
    local tags = last >= offset and call('zrevrange', key, offset, last) or {}
    return '{"total":' .. total .. ',"tags":' .. array(tags) .. '}'
  end
  return array(call('zrevrangebyscore', key, '+inf', 2, 'LIMIT', offset, count))
end
do
  local area, message = 'Tag', 'First argument must be "add", "remove", "get" or "top"'
  error(area .. '(): ' .. message)
end

