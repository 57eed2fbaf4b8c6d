-- The letters of the options in x:o (lib/options.lua). Each is also the name of its value in the
-- JSON. h, headers, and e, the maximum run time of a handler, are left to clients.

local BATCH = 'b' -- it is a batch: {"n": number of members}
local FAIR = 'g' -- it takes turns in its queue: {"t": tenant, "w": weight}
local LIMITED = 'c' -- the names of its limits
local LOCK_TIME = 'l' -- how long each of its locks lasts, in seconds
local ON_LOST = 'q' -- where it goes when it is lost: first, last or place
local POLICY = 'f' -- the effect on it if one of its dependencies fails
local UNIQUE = 'u' -- the unique key that it claims: {"k": key, "m": how long, ...}
local CALLS = 'n' -- the number of calls of other programs that have ended it
local START_BY = 's' -- when it is gone unless it has been started
local TTL = 't' -- when it is gone unless it runs or has failed
local KEEP = 'k' -- the seconds for which it is kept when it is complete
local KEEP_FAILED = 'K' -- the same when it has failed, -1 forever
local AWAITED = 'w' -- a client waits for its end; no value
local WATCHED = 'd' -- a job with a policy waits for it; no value
local HAS_RESULT = 'r' -- it has a result; no value
local HAS_PROGRESS = 'p' -- it has the field x:progress; no value

-- The letters of options by which a job may expire before it is started, and at any time.
local EXPIRING = 'st'
local MORTAL = 'stkK'

-- Options that end with the life of a job: a job that is put again after it was complete or failed
-- has them only if that put sets them.
local OF_A_LIFE = 'strwn'

-- Options that stay when a job is replaced.
local STAYING = 'bdfw'

-- Options that take effect when a job is complete.
local ENDING = 'kruw'

-- Whether a job with the options text has the one with this letter, or one of several.
local function has_option(text, letter)
  return string.find(text, '^%a*' .. letter) ~= nil
end

-- Whether a job with the options text, or false, has no option but the ones left to clients.
local function is_for_clients(text)
  return not text or string.find(text, '^[he]+|') ~= nil
end

local function has_any(text, letters) -- cold
  return string.find(text, '^%a*[' .. letters .. ']') ~= nil
end

-- The sets of letters that this call has met, by the letters, and the last text with its set.
local met_letters
local last_text, last_letters

-- The letters of an options text, as a set for calls of many jobs. The set also has mortal, if one
-- of them is a lifetime, and ending, if one takes effect when the job is complete.
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

-- The letters of several sets.
local function all_letters(sets) -- cold
  local all = {}
  for i = 1, #sets do
    for letter in pairs(sets[i]) do
      all[letter] = true
    end
  end
  return all
end
