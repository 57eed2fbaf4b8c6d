-- JSON accepted by every parser: cjson accepts more.

-- Reports whether a strict parser accepts text accepted by cjson, which allows control characters
-- in strings, and numbers such as nan, 0x10 and 1.
local function is_strict(text) -- cold
  if string.find(text, '%c') then
    return false
  end
  local bare = string.gsub(string.gsub(text, '\\.', ''), '"[^"]*"', '')
  for word in string.gmatch(bare, '[%w%.%+%-]+') do
    if word ~= 'true' and word ~= 'false' and word ~= 'null' then
      local digits = string.gsub(string.gsub(word, '[eE][%+%-]?%d+$', ''), '%.%d+$', '')
      if digits ~= '0' and digits ~= '-0' and not string.find(digits, '^%-?[1-9]%d*$') then
        return false
      end
    end
  end
  return true
end

-- Returns the JSON of an argument in a form accepted by strict parsers. Refuses values that JSON
-- can't express, such as infinite numbers.
local function strict_json(area, name, text) -- cold
  local value = json(area, name, text)
  if is_strict(text) then
    return text
  end
  local ok, again = pcall(cjson.encode, value)
  if not ok or not again then
    reject(area, 'Arg "' .. name .. '" missing or not JSON: ' .. string.sub(text, 1, 200))
  end
  return again
end
