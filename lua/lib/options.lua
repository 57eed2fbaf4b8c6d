-- Options of a job unknown to qless-core, all in one field of its hash: x:o, LETTERS|JSON, as in
-- h|{"h":{"traceparent":"00-1"}}. A job without such options lacks the field.
--
-- A letter stands for an option; the JSON has its value under the same letter. A script that reads
-- a job anyway also reads this field, and checks the letters before the bar; only cold functions
-- decode the JSON. Damaged text counts as no options.

-- Returns the decoded JSON and the letters, both empty if the text is missing or damaged.
local function split_options(text)
  local letters, body = string.match(text or '', '^(%a+)|(.*)$')
  local ok, values = pcall(cjson.decode, body or '')
  if ok and type(values) == 'table' then
    return values, letters
  end
  return {}, ''
end

-- Returns these values with false in place of each number that JSON can't express.
local function finite_values(values) -- cold
  local found = {}
  for key, value in pairs(values) do
    if type(value) == 'table' then
      value = finite_values(value)
    end
    found[key] = (type(value) ~= 'number' or finite(value)) and value
  end
  return found
end

-- Returns the options text with these letters and values, which another script may have damaged.
local function join_options(letters, values) -- cold
  local ok, body = pcall(cjson.encode, values)
  return letters .. '|' .. (ok and body or cjson.encode(finite_values(values)))
end

-- Returns where a lost job goes: 'last' or 'place', or nil if it comes first or takes turns.
local function own_place(text) -- cold
  local values = split_options(text)
  return not values[FAIR] and (values[ON_LOST] == 'place' or values[ON_LOST] == 'last') and
    values[ON_LOST] or nil
end

-- Returns the options text with one more letter, without a value.
local function with_letter(text, letter) -- cold
  if not string.find(text or '', '^%a+|') then
    return letter .. '|{}'
  end
  return has_option(text, letter) and text or letter .. text
end

-- Returns the options text with another value for one letter.
local function with_value(text, letter, value) -- cold
  local values, letters = split_options(with_letter(text, letter))
  values[letter] = value
  return join_options(letters, values)
end

-- Returns the options text without a letter, or '' if none remains.
local function without_letter(text, letter) -- cold
  local letters, body = string.match(text, '^(%a+)(|.*)$')
  if not letters then
    return '' -- damaged
  end
  letters = string.gsub(letters, letter, '')
  return letters == '' and '' or letters .. body
end

-- Checks the options of a put, parsing unchecked JSON, and returns them in the form to store.
local function read_options(area, text, checked) -- cold
  local given, letters, values = string.find(text, '^%a+|{.*}$'), nil, nil
  if given and not checked then
    values, letters = split_options(text)
    given = letters ~= '' and pcall(cjson.encode, values)
  end
  if not given then
    reject(area, 'Arg "o" is not options: ' .. string.sub(text, 1, 200))
  end
  return (checked or is_strict(string.match(text, '{.*'))) and text or join_options(letters, values)
end

-- Returns an existing job's options after a call that adds the options given.o and removes the
-- letters in given.drop. ended means the job's life had ended. Returns '' if no options remain, and
-- nil if they stay the same.
local function merge_options(old, given, ended) -- cold
  local gone = (given.drop or '') .. (ended and OF_A_LIFE or '')
  if not given.o and gone == '' then
    return
  end
  local values, letters = split_options(old)
  for letter in string.gmatch(gone, '%a') do
    letters = string.gsub(letters, letter, '')
    values[letter] = nil
  end
  local new, added = split_options(given.o)
  for key, value in pairs(new) do
    values[key] = value
  end
  for letter in string.gmatch(added, '%a') do
    if not string.find(letters, letter, 1, true) then
      letters = letters .. letter
    end
  end
  if not has_any(letters, EXPIRING) then
    values.put = nil -- see lib/lifetimes.lua
  end
  return letters == '' and '' or join_options(letters, values)
end

-- Writes the options of a job: '' if none remain, and nil if they stay the same.
local function write_options(key, text) -- cold
  if text == '' then
    call('hdel', key, 'x:o')
  elseif text then
    call('hset', key, 'x:o', text)
  end
end

-- Returns the duration of each lock in the options text, in seconds, or nil if unset.
local function own_lock_time(text)
  local ok, values = pcall(cjson.decode,
    string.match(text, '^%a*' .. LOCK_TIME .. '%a*|(.*)$') or '')
  local seconds = ok and type(values) == 'table' and tonumber(values[LOCK_TIME]) or 0
  return seconds > 0 and seconds < math.huge and seconds or nil
end

-- Returns the options member of a job's JSON, or ''.
local function options_member(text) -- cold
  local _, letters = split_options(text)
  return letters ~= '' and ',"x":' .. string.match(text, '|(.*)$') or ''
end
