-- Arguments are checked before the first write: an invalid argument changes nothing. The error
-- texts are those of qless-core's script, which classic clients rely on.
--
-- A problem is why a command does nothing: {code, text [, jid]}, or a failed reply of the server.
-- The code is one of package qless. With a jid, the text is the rest after "Job jid".

local function new_problem(code, jid, text) -- cold
  return {code = code, jid = jid, text = text}
end

local function no_job(jid) -- cold
  return new_problem('not_found', jid, 'does not exist')
end

local function no_queue(jid) -- cold
  return new_problem('invalid', jid, 'is in no queue')
end

-- Begins a text with the verb that qless-core's text omits.
local function is(text) -- cold
  return classic and text or 'is ' .. text
end

-- Returns the text of a problem. For Go it begins with the code and the lengths of the jid and the
-- text, followed by both. A server would cut the text at a NUL.
local function text_of(problem) -- cold
  local jid, text = problem.jid, problem.err or problem.text
  if not classic then
    jid = jid or ''
    text = table.concat({problem.code or 'server', #jid, #text, jid, text}, ' ')
    return (string.gsub(text, '%z', ' '))
  end
  return jid and 'Job ' .. jid .. ' ' .. text or text
end

local function raise(area, problem) -- cold
  error(area .. '(): ' .. text_of(problem))
end

-- Fails if there is a problem.
local function raise_any(area, problem)
  if problem then
    raise(area, problem)
  end
end

local function reject(area, message) -- cold
  raise(area, new_problem('invalid', nil, message))
end

local function reject_missing(area, name) -- cold
  reject(area, ({
    Job = 'no jid provided', Recurring = 'no jid provided', Queue = 'no queue name provided',
  })[area] or 'Arg "' .. name .. '" missing')
end

local function required(area, name, text)
  if not text then
    reject_missing(area, name)
  end
  return text
end

local function reject_number(area, name, text) -- cold
  local problem = ({
    Failed = 'is not', Peek = 'missing or not', Pop = 'missing or not',
    Priority = 'missing or not', Stats = 'missing or not',
  })[area] or 'not'
  reject(area, 'Arg "' .. name .. '" ' .. problem .. ' a number: ' .. tostring(text))
end

local function number(area, name, text)
  local n = tonumber(text)
  if not n or n - n ~= 0 then
    reject_number(area, name, text)
  end
  return n
end

-- Checks a number that is not negative.
local function not_negative(area, name, text) -- cold
  local n = number(area, name, text)
  if n < 0 then
    reject(area, 'Arg "' .. name .. '" is negative: ' .. text)
  end
  return n
end

local function integer(area, name, text)
  local value = number(area, name, text)
  if value % 1 ~= 0 or math.abs(value) > 2147483647 then
    reject(area, 'Arg "' .. name .. '" is not a whole number: ' .. text)
  end
  return value
end

-- Checks a count: an integer that is not negative.
local function whole(area, name, text)
  local amount = integer(area, name, text)
  if amount < 0 then
    reject(area, 'Arg "' .. name .. '" is negative: ' .. text)
  end
  return amount + 0 -- not -0, or -0 as text
end

-- Checks a name used in a key.
local function named(area, name, text)
  return required(area, name, text ~= '' and text)
end

local function json(area, name, text)
  -- A decoder may raise an error, or return it.
  local ok, value, problem = pcall(cjson.decode, text)
  if not ok or problem then
    reject(area, 'Arg "' .. name .. '" missing or not JSON: ' .. string.sub(tostring(text), 1, 200))
  end
  return value
end

-- Reads a JSON array of names, such as tags or jids; empty without a text.
local function names(area, name, text)
  if not text then
    return none
  end
  local list = json(area, name, text)
  local members = 0
  for _ in pairs(type(list) == 'table' and list or none) do
    members = members + 1
  end
  if type(list) ~= 'table' or members ~= #list then
    reject(area, 'Arg "' .. name .. '" is not a JSON array')
  end
  for i = 1, #list do
    if type(list[i]) == 'number' then
      list[i] = tostring(list[i])
    elseif type(list[i]) ~= 'string' then
      reject(area, 'Arg "' .. name .. '" is not a JSON array of strings')
    end
  end
  return list
end

-- Checks jids of dependencies, from list[first] on. A jid can't be the name of another job's list.
local function check_dependencies(area, list, first) -- cold
  for i = first, #list do
    if string.find(list[i], '%-history$') or string.find(list[i], '%-dependents$') or
      string.find(list[i], '%-dependencies$') then
      reject(area, 'Arg "depends" names no job: ' .. list[i])
    end
  end
  return list
end

-- The same for a JSON array of jids.
local function read_dependencies(area, text) -- cold
  return check_dependencies(area, names(area, 'depends', text), 1)
end

-- Returns a text, or nil if it is missing or empty.
local function not_empty(text)
  return text ~= '' and text or nil
end

-- Reads options: pairs of arguments, from ARGV[first] to ARGV[last].
local function options(area, first, last)
  local found = {}
  if last < first then
    return found
  end
  if (last - first) % 2 == 0 or last > #ARGV then
    reject(area, 'Odd number of additional args')
  end
  for i = first, last, 2 do
    found[ARGV[i]] = ARGV[i + 1]
  end
  return found
end
