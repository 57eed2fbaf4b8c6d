-- The attempts that did not complete a job. x:attempts contains a JSON object for each, the oldest
-- first, separated by a comma and a tab, and no other tab. Numbers are strings, because cjson would
-- lose digits.

-- The maximum number of a job's attempts, and of bytes of a message's first line.
local MAX_ATTEMPTS = 25
local MAX_LINE = 200

-- Returns the first line of a message, cut to MAX_LINE, without half a character at the end.
local function first_line(message) -- cold
  local line = string.match(message, '^%s*([^\r\n]*)')
  local next_byte = string.byte(line, MAX_LINE + 1)
  line = string.sub(line, 1, MAX_LINE)
  if next_byte and next_byte >= 128 and next_byte < 192 then
    line = string.gsub(line, '[\192-\255][\128-\191]*$', '')
  end
  return line
end

-- Returns the field with one more attempt: its outcome, its beginning, and the other members.
local function with_attempt(before, what, began, attempt) -- cold
  attempt.what, attempt.began = what, began or nil
  attempt.ended = attempt.ended or stamp
  attempt.message = attempt.message and first_line(attempt.message)
  attempt.delay = attempt.delay and attempt.delay > 0 and exact(attempt.delay) or nil
  local text = (before and before .. ',\t' or '') .. cjson.encode(attempt)
  local _, others = string.gsub(text, '\t', '')
  for _ = MAX_ATTEMPTS, others do
    text = string.match(text, '\t(.*)$')
  end
  return text
end

-- Returns the attempts member of a job's JSON, without attempts if the field is damaged.
local function attempts_member(text) -- cold
  return ',"attempts":' .. (readable('[' .. text .. ']') or empty_list)
end
