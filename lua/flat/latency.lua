-- latency: for how long the oldest jobs of queues have been waiting that could be popped, by priority.
-- Changes nothing: what has fallen due counts where it is.
--
-- KEYS[1]  the namespace prefix
-- ARGV     NOW, queue...
-- Returns  JSON, for each queue: {bands: [{priority, waited}, ...], next [, more]}, from the highest
--          priority on, at most 16 of them, then with more; next is when the first scheduled or
--          recurring job falls due, or fell due; it is missing if there is none
-- Errors   Latency() when none is named
-- Cost     3 commands a queue, 4 for each priority, 1 for each due job; for jobs that were timed out,
--          released or got another priority 2, and 1 for each, at most 8 in each priority
-- Repeat   safe
-- Needs    hmget time zrange zrevrangebyscore

local call = redis.call
local prefix = KEYS[1]
local try = redis.pcall
local function finite(text, default)
  local n = text and tonumber(text)
  if n and n - n == 0 then
    return n
  end
  return default
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



local function joined(texts)
  if #texts == 0 then
    return '[]'
  elseif #texts == 1 then
    return '[' .. texts[1] .. ']'
  elseif #texts == 2 then
    return '[' .. texts[1] .. ',' .. texts[2] .. ']'
  end
  return '[' .. table.concat(texts, ',') .. ']'
end

local LARGEST = 2 ^ 53
local NO_TIME = 0.1
local TURNS = 0.5
local function since_when(jid, score)
  local job = try('hmget', prefix .. 'j:' .. jid, 'priority', 'time')
  local priority = finite(job[1], 0)
  local at = (priority - score) * 10000000000
  if at >= NO_TIME * 10000000000 and at <= now + 1 then
    return at, priority
  end
  return finite(job[2], now), priority
end
local function add_wait(bands, priority, at)
  local waited = math.max(now - at, 0)
  for i = 1, #bands do
    if bands[i].priority == priority then
      bands[i].waited = math.max(bands[i].waited, waited)
      return
    end
  end
  bands[#bands + 1] = {priority = priority, waited = waited}
end
local function add_waiting(bands, queue)
  local work, from = prefix .. 'q:' .. queue .. '-work', '+inf'
  for _ = 0, 16 do
    local head = call('zrevrangebyscore', work, from, '-inf', 'WITHSCORES', 'LIMIT', '0', '1')[2]
    local score = finite(head)
    if not head or not score and string.sub(head, 1, 1) == '-' then
      return false
    elseif #bands >= 16 then
      return true
    elseif not score then
      do
        local bands, work, from, to, limit = bands, work, '+inf', '+inf', '8'
        local found = call('zrevrangebyscore', work, from, to, 'WITHSCORES', 'LIMIT', '0', limit)
        for i = 1, #found, 2 do
          local at, priority = since_when(found[i], finite(found[i + 1], math.huge))
          add_wait(bands, priority, at)
        end
      end
      from = string.format('%.17g', LARGEST)
    else
      local priority = math.ceil(score)
      do
        local bands, work, priority, score = bands, work, priority, score
        if score > priority - NO_TIME then
          do
            local bands, work, from, to, limit = bands, work, string.format('%.17g', score), '(' .. string.format('%.17g', (priority - NO_TIME)), '8'
            local found = call('zrevrangebyscore', work, from, to, 'WITHSCORES', 'LIMIT', '0', limit)
            for i = 1, #found, 2 do
              local at, priority = since_when(found[i], finite(found[i + 1], math.huge))
              add_wait(bands, priority, at)
            end
          end
        end
        if score > priority - TURNS then
          do
            local bands, work, from, to, limit = bands, work, string.format('%.17g', (priority - NO_TIME)), '(' .. string.format('%.17g', (priority - TURNS)), '1'
            local found = call('zrevrangebyscore', work, from, to, 'WITHSCORES', 'LIMIT', '0', limit)
            for i = 1, #found, 2 do
              local at, priority = since_when(found[i], finite(found[i + 1], math.huge))
              add_wait(bands, priority, at)
            end
          end
        end
        do
          local bands, work, from, to, limit = bands, work, string.format('%.17g', (priority - TURNS)), '(' .. string.format('%.17g', (priority - 1)), '1'
          local found = call('zrevrangebyscore', work, from, to, 'WITHSCORES', 'LIMIT', '0', limit)
          for i = 1, #found, 2 do
            local at, priority = since_when(found[i], finite(found[i + 1], math.huge))
            add_wait(bands, priority, at)
          end
        end
      end
      from = string.format('%.17g', (priority - 1))
    end
  end
  return true
end

local function add_due(bands, queue, part)
  local first = call('zrange', prefix .. 'q:' .. queue .. '-' .. part, 0, 0, 'WITHSCORES')
  local due = tonumber(first[2])
  if due and due <= now then
    local key = part == 'recur' and (prefix .. 'r:' .. first[1]) or (prefix .. 'j:' .. first[1])
    add_wait(bands, finite(try('hmget', key, 'priority')[1], 0), due)
  end
  return due
end
local function latency(queue)
  local bands = {}
  local more = add_waiting(bands, queue)
  local scheduled, recur = add_due(bands, queue, 'scheduled'), add_due(bands, queue, 'recur')
  table.sort(bands, function(a, b)
    return a.priority > b.priority
  end)
  for i = 1, #bands do
    bands[i] = '{"priority":' .. string.format('%.17g', (bands[i].priority)) .. ',"waited":' ..
      string.format('%.17g', (bands[i].waited)) .. '}'
  end
  local next_due = math.min(scheduled or math.huge, recur or math.huge)
  return '{"bands":' .. joined(bands) .. (next_due < math.huge and
    ',"next":' .. string.format('%.17g', next_due) or '') .. (more and ',"more":true' or '') .. '}'
end
repeat
  local area, name, text = 'Latency', 'queue', ARGV[2]
  do
    local area, name, text = area, name, text ~= '' and text
    if not text then
      local words = {
        Job = 'no jid provided', Recurring = 'no jid provided', Queue = 'no queue name provided',
      }
      do
        local area, message = area, words[area] or 'Arg "' .. name .. '" missing'
        error(area .. '(): ' .. message)
      end
    end
    break
  end
until true
local found = {}
for i = 2, #ARGV do
  found[i - 1] = latency(ARGV[i])
end
return joined(found)

