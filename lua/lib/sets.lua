-- Lists without duplicates, as sets that keep their order.

-- Returns the members of list, from first on, as the keys of a table.
local function set_of(list, first)
  local set = {}
  for i = first, #list do
    set[list[i]] = true
  end
  return set
end

-- Appends the members of more, from first on, that list lacks.
local function union(list, more, first)
  local has = set_of(list, 1)
  for i = first, #more do
    if not has[more[i]] then
      has[more[i]] = true
      list[#list + 1] = more[i]
    end
  end
  return list
end

-- Returns the members of list missing in other from first on.
local function difference(list, other, first)
  local gone, kept = set_of(other, first), {}
  for i = 1, #list do
    if not gone[list[i]] then
      kept[#kept + 1] = list[i]
    end
  end
  return kept
end
