-- Lists without duplicates, as sets that keep their order.

-- Appends to list the members of more, from first on, that it lacks.
local function union(list, more, first)
  local has = {}
  for i = 1, #list do
    has[list[i]] = true
  end
  for i = first, #more do
    if not has[more[i]] then
      has[more[i]] = true
      list[#list + 1] = more[i]
    end
  end
  return list
end

-- The members of list that are not in other from first on.
local function difference(list, other, first)
  local gone, kept = {}, {}
  for i = first, #other do
    gone[other[i]] = true
  end
  for i = 1, #list do
    if not gone[list[i]] then
      kept[#kept + 1] = list[i]
    end
  end
  return kept
end
