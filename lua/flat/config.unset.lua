-- config.unset: resets a setting to its default.
--
-- KEYS[1]  the namespace prefix
-- ARGV     NOW, key
-- Returns  nil
-- Errors   config.unset()
-- Cost     2 commands
-- Repeat   safe
-- Needs    hdel publish srem time zpopmax zpopmin

local call = redis.call
local prefix = KEYS[1]
local try = redis.pcall



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

local function wake(queue)
local function finite(text, default)
  local n = text and tonumber(text)
  if n and n - n == 0 then
    return n
  end
  return default
end
  local waiting = prefix .. 'x:idle:' .. queue
  for i = 1, 2 * 100 do
    local worker = (i <= 100 and try('zpopmin', waiting) or try('zpopmax', waiting))[1]
    if not worker then
      return
    end
    local idle = try('srem', prefix .. 'x:idle', worker) == 1
    if idle and finite(try('publish', prefix .. ('x:wake:' .. worker), queue), 0) > 0 then
      return true
    end
  end
end

local option
do
  local area, name, text = 'config.unset', 'option', ARGV[2]
  if not text then
    local words = {
      Job = 'no jid provided', Recurring = 'no jid provided', Queue = 'no queue name provided',
    }
    do
      local area, message = area, words[area] or 'Arg "' .. name .. '" missing'
      error(area .. '(): ' .. message)
    end
  end
  option = text
end
do
  if redis.acl_check_cmd and not redis.acl_check_cmd('publish', prefix .. 'log') then
    error({err = 'NOPERM this user may not publish to the channel ' .. prefix .. 'log'})
  end
end
call('hdel', prefix .. 'config', option)
try('publish', prefix .. 'log', (cjson.encode({event = 'config_unset', option = option})))
do
  local option = option
  local queue = string.match(option, '^(.+)%-max%-concurrency$')
    or string.match(option, '^(.+)%-max%-rate$')
  if queue then
    wake(queue)
  end
end

