-- config.unset: resets a setting to its default.
--
-- Args     key
-- Returns  nil
-- Errors   config.unset()
-- Cost     2 commands
-- For      classic
-- Repeat   safe

local option = required('config.unset', 'option', ARGV[3])
must_publish()
call('hdel', prefix .. 'config', option)
publish('log', cjson.encode({event = 'config_unset', option = option}))
wake_for_limit(option)
