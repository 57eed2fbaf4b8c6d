-- worker.register: tells that a worker runs, and what it is, for 150 seconds.
--
-- KEYS[1]  the namespace prefix
-- ARGV     NOW, worker, age, json
--          age   how many seconds ago the worker was started
--          json  an object that describes it, for workers with 'registered'
-- Returns  nil
-- Errors   Worker.register()
-- Cost     3 commands
-- Repeat   safe
-- Needs    set time zadd

-- @include "lib/base.lua"
-- @include "lib/check.lua"
-- @include "lib/clock.lua"
-- @include "lib/registry.lua"

local worker = named('Worker.register', 'worker', ARGV[2])
local started = now - number('Worker.register', 'age', ARGV[3])
json('Worker.register', 'json', ARGV[4])
call('set', registry_key(worker), stamp .. '|' .. exact(started) .. '|' .. ARGV[4], 'EX', REGISTERED)
try('zadd', prefix .. 'workers', stamp, worker)
