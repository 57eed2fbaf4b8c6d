-- Tags: who has a tag, and how many have it. Counters change only when membership does.

-- @include "lib/clock.lua"

local function add_tag(jid, tag)
  if try('zadd', prefix .. 't:' .. tag, stamp, jid) == 1 then
    try('zincrby', prefix .. 'tags', 1, tag)
  end
end

local function remove_tag(jid, tag)
  if try('zrem', prefix .. 't:' .. tag, jid) == 1 then
    if finite(try('zincrby', prefix .. 'tags', -1, tag), 1) <= 0 then
      call('zrem', prefix .. 'tags', tag)
    end
  end
end

local function add_tags(jid, tags, first) -- cold
  for i = first, #tags do
    add_tag(jid, tags[i])
  end
end

local function remove_tags(jid, tags, first)
  for i = first, #tags do
    remove_tag(jid, tags[i])
  end
end

-- A list's members in order, with those of extra that are new to it.
local function with_tags(list, extra, first)
  local has = {}
  for i = 1, #list do
    has[list[i]] = true
  end
  for i = first, #extra do
    if not has[extra[i]] then
      has[extra[i]] = true
      list[#list + 1] = extra[i]
    end
  end
  return list
end

-- A list's members in order, without those of extra.
local function without_tags(list, extra, first)
  local gone, kept = {}, {}
  for i = first, #extra do
    gone[extra[i]] = true
  end
  for i = 1, #list do
    if not gone[list[i]] then
      kept[#kept + 1] = list[i]
    end
  end
  return kept
end
