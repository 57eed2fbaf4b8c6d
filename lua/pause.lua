-- pause: keeps queues from giving jobs until they are unpaused.
--
-- KEYS[1]  the namespace prefix
-- ARGV     NOW, queue...
-- Returns  nil
-- Errors   Pause() when none is named
-- Cost     1 command for each
-- Repeat   safe
-- Needs    sadd

-- @include "lib/base.lua"
-- @include "lib/check.lua"

required('Pause', 'queue', ARGV[2])
for i = 2, #ARGV do
  call('sadd', prefix .. 'paused_queues', ARGV[i])
end
