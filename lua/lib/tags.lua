-- Tags: the jobs of each tag, and their number. A counter changes only with its set.

-- @include "lib/base.lua"
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
