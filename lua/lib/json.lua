-- JSON as text, to avoid decoding and encoding stored JSON.

-- Returns a list as JSON. cjson would encode an empty list as {}.
local function array(list)
  return #list == 0 and empty_list or cjson.encode(list)
end

-- Returns a JSON array of texts that are already JSON.
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

-- Returns the elements of a stored list, or none if missing or damaged.
local function list_of(text)
  local ok, list = pcall(cjson.decode, text)
  return ok and type(list) == 'table' and list or {}
end

-- Returns the strings of a stored list, such as tags.
local function names_of(text) -- cold
  local found = {}
  for _, name in ipairs(list_of(text)) do
    if type(name) == 'string' or type(name) == 'number' then
      found[#found + 1] = tostring(name)
    end
  end
  return found
end

-- Returns a stored list or object as valid JSON, even if damaged, or nil if missing.
local function readable(text) -- cold
  local ok, again = pcall(cjson.encode, list_of(text))
  return ok and again or nil
end
