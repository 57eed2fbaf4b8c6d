-- JSON as text, so that stored JSON need not be decoded and encoded again.

-- A list as JSON. cjson would write an empty one as {}.
local function array(list)
  if #list == 0 then
    return empty_list
  end
  return cjson.encode(list)
end

-- A JSON array of texts that are already JSON.
local function joined(texts)
  if #texts == 0 then
    return empty_list
  elseif #texts == 1 then
    return '[' .. texts[1] .. ']'
  elseif #texts == 2 then
    return '[' .. texts[1] .. ',' .. texts[2] .. ']'
  end
  return '[' .. table.concat(texts, ',') .. ']'
end

-- The elements of a stored list; none if it is missing or damaged.
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

-- The strings of a stored list, such as tags.
local function names_of(text) -- cold
  local found = {}
  for _, name in ipairs(list_of(text)) do
    if type(name) == 'string' or type(name) == 'number' then
      found[#found + 1] = tostring(name)
    end
  end
  return found
end

-- A stored list or object as valid JSON, even if it is damaged; nil if there is none.
local function readable(text) -- cold
  local ok, again = pcall(cjson.encode, list_of(text))
  return ok and again or nil
end
