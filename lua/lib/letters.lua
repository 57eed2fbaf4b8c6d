-- The letters of the options in x:o (lib/options.lua). Each is also the name of its value in the
-- JSON. h, headers, and e, the maximum run time of a handler, are left to clients.

local BATCH = 'b' -- a batch: {"n": number of members}
local FAIR = 'g' -- taking turns in the queue: {"t": tenant, "w": weight}
local LIMITED = 'c' -- the names of the job's limits
local LOCK_TIME = 'l' -- the duration of each lock, in seconds
local ON_LOST = 'q' -- the job's place when lost: first, last or place
local POLICY = 'f' -- the effect of a failed dependency on the job
local UNIQUE = 'u' -- the job's unique key: {"k": key, "m": how long, ...}
local CALLS = 'n' -- the number of calls of other programs that ended the job
local START_BY = 's' -- when the job expires unless it has been started
local TTL = 't' -- when the job expires unless it runs or has failed
local KEEP = 'k' -- for how many seconds the job is kept after completion
local KEEP_FAILED = 'K' -- the same after a failure, -1 forever
local AWAITED = 'w' -- a client waits for the job's end; no value
local WATCHED = 'd' -- a child with a policy waits for the job; no value
local HAS_RESULT = 'r' -- the job has a result; no value
local HAS_PROGRESS = 'p' -- the job has the field x:progress; no value

-- Options by which a job may expire before it is started, and at any time.
local EXPIRING = 'st'
local MORTAL = 'stkK'

-- Options of one life of a job: put again after its end, a job has only those set by the new put.
local OF_A_LIFE = 'strwn'

-- Options that stay when a job is replaced.
local STAYING = 'bdfw'

-- Options that take effect on completion.
local ENDING = 'kruw'

-- Reports whether the options text has this letter, or one of several.
local function has_option(text, letter)
  return string.find(text, '^%a*' .. letter) ~= nil
end

-- Reports whether the options text, or false, has only options left to clients.
local function is_for_clients(text)
  return not text or string.find(text, '^[he]+|') ~= nil
end

local function has_any(text, letters) -- cold
  return string.find(text, '^%a*[' .. letters .. ']') ~= nil
end

-- The sets of letters used in this call, by letters, and the last text with its set.
local met_letters
local last_text, last_letters

-- Returns the letters of an options text, as a set for calls of many jobs. The set also has mortal,
-- if a letter is a lifetime, and ending, if one takes effect on completion.
local function letters_of(text)
  if text == last_text then
    return last_letters
  end
  local letters = string.match(text, '^%a+') or ''
  met_letters = met_letters or {}
  local found = met_letters[letters]
  if not found then
    found = {
      mortal = string.find(letters, '[' .. MORTAL .. ']') ~= nil,
      ending = string.find(letters, '[' .. ENDING .. ']') ~= nil,
    }
    for letter in string.gmatch(letters, '%a') do
      found[letter] = true
    end
    met_letters[letters] = found
  end
  last_text, last_letters = text, found
  return found
end

-- Returns the letters of several sets.
local function all_letters(sets) -- cold
  local all = {}
  for i = 1, #sets do
    for letter in pairs(sets[i]) do
      all[letter] = true
    end
  end
  return all
end
