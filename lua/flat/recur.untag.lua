-- recur.untag: removes tags of a recurring job.
--
-- KEYS[1]  the namespace prefix
-- ARGV     NOW, jid, tag...
-- Returns  JSON of the recurring job's tags
-- Errors   Untag() when there is no such job
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
    local area, message = 'Untag', 'Job ' .. jid .. ' does not exist'
    error(area .. '(): ' .. message)
  end
end
local text
repeat
  local list = difference(names_of(tags), ARGV, 3)
  if #list == 0 then
    text = '[]'
    break
  end
  text = cjson.encode(list)
until true
call('hset', prefix .. 'r:' .. jid, 'tags', text)
return text

