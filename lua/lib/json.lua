-- JSON as text, so that what is stored as JSON need not be decoded and encoded again.

-- Lua can't tell an empty list from an empty object; readers can.
local function array(list)
  if #list == 0 then
    return '[]'
  end
  return cjson.encode(list)
end

-- What a stored list holds; nothing when it is missing or damaged.
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
