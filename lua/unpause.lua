-- unpause: lets paused queues give jobs again.
--
-- KEYS[1]  the namespace prefix
-- ARGV     NOW, queue...
-- Returns  nil
-- Errors   Unpause() when none is named
-- Cost     1 command for each
-- Repeat   safe
-- Needs    publish srem time zpopmax zpopmin

-- @include "lib/base.lua"
-- @include "lib/check.lua"
-- @include "lib/wake.lua"

required('Unpause', 'queue', ARGV[2])
for i = 2, #ARGV do
  call('srem', prefix .. 'paused_queues', ARGV[i])
  wake(ARGV[i])
end
