-- A job's progress, as last reported by its worker: x:progress is DONE|TOTAL|ATTEMPT|TIME|NOTE. The
-- letter p of the job's options, without a value, means the field is present.

-- Returns the field as JSON, or nil if missing or damaged.
local function progress_json(text) -- cold
  local values = {string.match(text, '^([^|]+)|([^|]+)|([^|]+)|([^|]+)|(.*)$')}
  for i = 1, 4 do
    local n = finite(values[i])
    if not n then
      return
    end
    values[i] = exact(n)
  end
  return '{"done":' .. values[1] .. ',"total":' .. values[2] .. ',"attempt":' .. values[3] ..
    ',"time":' .. values[4] .. ',"note":' .. cjson.encode(values[5]) .. '}'
end

-- Returns the progress member of a job's JSON, or ''.
local function progress_member(jid, stored) -- cold
  local text = has_option(stored, HAS_PROGRESS) and try('hget', job_key(jid), 'x:progress')
  local shown = type(text) == 'string' and progress_json(text)
  return shown and ',"progress":' .. shown or ''
end
