-- Options of a job that qless-core does not know, all in one field of its hash: x:o, LETTERS|JSON,
-- as in h|{"h":{"traceparent":"00-1"}}. A job without such options has no such field.
--
-- A letter means that the job has an option, and the JSON has its value under that letter. A script
-- that reads a job anyway also reads this field, and checks the letters before the bar; only cold
-- functions decode the JSON. Text that can't be decoded counts as no options.

-- The letters and the decoded JSON; none if there is no text, or it is damaged.
local function split_options(text)
  local letters, body = string.match(text or '', '^(%a+)|(.*)$')
  local ok, values = pcall(cjson.decode, body or '')
  if ok and type(values) == 'table' then
    return letters, values
  end
  return '', {}
end

-- These values with false for each number that is not finite, which JSON can't express.
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

-- The options text with these letters and values, which another script may have damaged.
local function join_options(letters, values) -- cold
  local ok, body = pcall(cjson.encode, values)
  return letters .. '|' .. (ok and body or cjson.encode(finite_values(values)))
end

-- The place of a job with these options when it is lost, last or place; nil if it comes first, or
-- takes turns.
local function own_place(text) -- cold
  local _, values = split_options(text)
  return not values[FAIR] and (values[ON_LOST] == 'place' or values[ON_LOST] == 'last') and
    values[ON_LOST] or nil
end

-- The options text with one more letter, which has no value.
local function with_letter(text, letter) -- cold
  if not string.find(text or '', '^%a+|') then
    return letter .. '|{}'
  end
  return has_option(text, letter) and text or letter .. text
end

-- The options text with another value of one letter.
local function with_value(text, letter, value) -- cold
  local letters, values = split_options(with_letter(text, letter))
  values[letter] = value
  return join_options(letters, values)
end

-- The options text without such a letter; empty if none remains.
local function without_letter(text, letter) -- cold
  local letters, body = string.match(text, '^(%a+)(|.*)$')
  if not letters then
    return '' -- it was damaged
  end
  letters = string.gsub(letters, letter, '')
  return letters == '' and '' or letters .. body
end

-- Checks the options of a put, and returns them in the form to store. The JSON is not parsed if the
-- caller has checked it.
local function read_options(area, text, checked) -- cold
  local given, letters, values = string.find(text, '^%a+|{.*}$'), nil, nil
  if given and not checked then
    letters, values = split_options(text)
    given = letters ~= '' and pcall(cjson.encode, values)
  end
  if not given then
    reject(area, 'Arg "o" is not options: ' .. string.sub(text, 1, 200))
  end
  return (checked or is_strict(string.match(text, '{.*'))) and text or join_options(letters, values)
end

-- The options of an existing job after a call that adds the options given.o and removes the options
-- with the letters in given.drop. ended means that the job's life had ended. The text is empty if
-- none remain, and nil if they stay the same.
local function merge_options(old, given, ended) -- cold
  local gone = (given.drop or '') .. (ended and OF_A_LIFE or '')
  if not given.o and gone == '' then
    return
  end
  local letters, values = split_options(old)
  for letter in string.gmatch(gone, '%a') do
    letters = string.gsub(letters, letter, '')
    values[letter] = nil
  end
  local added, new = split_options(given.o)
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

-- Writes the options of a job that had the options old.
local function write_options(key, old, given) -- cold
  local text = merge_options(old, given)
  if text == '' then
    call('hdel', key, 'x:o')
  elseif text then
    call('hset', key, 'x:o', text)
  end
end

-- The seconds that each lock on a job with the options text lasts, or nil if they don't set it.
local function own_lock_time(text)
  local ok, values = pcall(cjson.decode,
    string.match(text, '^%a*' .. LOCK_TIME .. '%a*|(.*)$') or '')
  local seconds = ok and type(values) == 'table' and tonumber(values[LOCK_TIME]) or 0
  return seconds > 0 and seconds < math.huge and seconds or nil
end

-- The member of a job's JSON with its options, or ''.
local function options_member(text) -- cold
  local letters = split_options(text)
  if letters == '' then
    return ''
  end
  return ',"x":' .. string.match(text, '|(.*)$')
end
