-- config.get: one setting, or all of them.
--
-- Args     [key], or '', 'from', the cursor of the last call or ''
-- Returns  the value, an integer for a default, nil if there is neither; or JSON of all settings,
--          with defaults for unset ones, except backoff;
--          from: JSON {cursor, settings}: about 500 settings that are set, and the next cursor,
--          empty at the end
-- Errors   Config.get()
-- Cost     1 command
-- For      classic
-- Repeat   safe

-- Defaults that only clients in PHP expect, and request by name.
local unlisted = {
  ['backoff-initial-delay'] = DEFAULT_BACKOFF_INITIAL_DELAY,
  ['backoff-factor'] = DEFAULT_BACKOFF_FACTOR,
}

-- Clients in other languages do not expect the defaults of max-job-history and max-worker-age.
local defaults = {
  ['application'] = 'qless',
  ['heartbeat'] = DEFAULT_HEARTBEAT,
  ['grace-period'] = DEFAULT_GRACE_PERIOD,
  ['stats-history'] = DEFAULT_STATS_HISTORY,
  ['histogram-history'] = DEFAULT_HISTOGRAM_HISTORY,
  ['jobs-history-count'] = DEFAULT_JOBS_HISTORY_COUNT,
  ['jobs-history'] = DEFAULT_JOBS_HISTORY,
}

local key = ARGV[3]
if ARGV[4] == 'from' then
  local cursor = scan_cursor('Config.get', required('Config.get', 'cursor', ARGV[5]))
  local found = call('hscan', prefix .. 'config', cursor, 'COUNT', SCANNED)
  local set, some = {}, found[2]
  for i = 1, #some, 2 do
    set[(i + 1) / 2] = cjson.encode(some[i]) .. ':' .. cjson.encode(some[i + 1])
  end
  return '{"cursor":' .. cjson.encode(next_part(found)) .. ',"settings":{' ..
    table.concat(set, ',') .. '}}'
elseif key then
  return call('hget', prefix .. 'config', key) or defaults[key] or unlisted[key]
end
local set = call('hgetall', prefix .. 'config')
for i = 1, #set, 2 do
  defaults[set[i]] = set[i + 1]
end
return cjson.encode(defaults)
