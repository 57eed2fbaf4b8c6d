-- recur.tag: adds tags to a recurring job, for the jobs that it puts from now on.
--
-- KEYS[1]  the namespace prefix
-- ARGV     NOW, jid, tag...
-- Returns  JSON of the recurring job's tags
-- Errors   Tag() when there is no such job
-- Cost     2 commands
-- Repeat   safe
-- Needs    hget hset

local call = redis.call
local prefix = KEYS[1]




local function names_of(text)
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

local jid
do
  local area, name, text = 'Recurring', 'jid', ARGV[2]
  if not text then
    local words = {
      Job = 'no jid provided', Recurring = 'no jid provided', Queue = 'no queue name provided',
    }
    do
      local area, message = area, words[area] or 'Arg "' .. name .. '" missing'
      error(area .. '(): ' .. message)
    end
  end
  jid = text
end
local tags = call('hget', prefix .. 'r:' .. jid, 'tags')
if not tags then
  do
    local area, message = 'Tag', 'Job ' .. jid .. ' does not exist'
    error(area .. '(): ' .. message)
  end
end
local text
repeat
  local list = union(names_of(tags), ARGV, 3)
  if #list == 0 then
    text = '[]'
    break
  end
  text = cjson.encode(list)
until true
call('hset', prefix .. 'r:' .. jid, 'tags', text)
return text

