-- config.set: changes a setting.
--
-- Args     key, value
-- Returns  nil
-- Errors   config.set()
-- Cost     2 commands
-- For      classic
-- Repeat   safe

local option = required('config.set', 'option', ARGV[3])
local value = required('config.set', 'value', ARGV[4])
must_publish()
call('hset', prefix .. 'config', option, value)
publish('log', cjson.encode({event = 'config_set', option = option, value = value}))
wake_for_limit(option)
