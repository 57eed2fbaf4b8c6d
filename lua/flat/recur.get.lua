-- recur.get: one recurring job.
--
-- KEYS[1]  the namespace prefix
-- ARGV     NOW, jid
-- Returns  its JSON, or nil
-- Errors   Recurring()
-- Cost     1 command
-- Repeat   safe
-- Needs    hmget

local call = redis.call
local prefix = KEYS[1]
local function finite(text, default)
  local n = text and tonumber(text)
  if n and n - n == 0 then
    return n
  end
  return default
end




local function array(list)
  if #list == 0 then
    return '[]'
  end
  return cjson.encode(list)
end
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
local job = call('hmget', prefix .. 'r:' .. jid, 'jid', 'klass', 'state', 'queue', 'priority', 'interval',
  'retries', 'count', 'data', 'tags', 'backlog')
if not job[1] then
  return nil
end
local text = cjson.encode({
  jid = job[1],
  klass = job[2],
  state = job[3],
  queue = job[4],
  interval = finite(job[6], 0),
  retries = finite(job[7], 0),
  count = finite(job[8], 0),
  data = job[9],
  backlog = finite(job[11], 0),
})
return string.sub(text, 1, -2) ..
  ',"priority":' .. string.format('%.17g', (finite(job[5], 0))) ..
  ',"tags":' .. array(names_of(job[10])) .. '}'

