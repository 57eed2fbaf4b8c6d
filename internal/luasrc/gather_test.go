package luasrc_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestColdFunctionsAreOneFunction(t *testing.T) {
	requireInlined(t, `local prefix = KEYS[1]
local seldom1
local function hot(n)
  if n then
    return redis.first(n, 'first()'), seldom1('empty')
  end
  return seldom1('first', n, 1)
end
seldom1 = function(which, ...)
if which == 'empty' then
  return prefix
elseif which == 'first' then
local n, m = ...
  return seldom1('empty') + n + m
elseif which == 'second' then
local n = ...
local function own(n)
  return n, n
end
  return own(n), hot(n)
end
end
return hot(1), hot(2), seldom1('second', 3)
`, `local prefix = KEYS[1]

local function empty() -- cold
  return prefix
end

local function own(n)
  return n, n
end

local function first(n, m) -- cold
  return empty() + n + m
end

local function hot(n)
  if n then
    return redis.first(n, 'first()'), empty()
  end
  return first(n, 1)
end

local function second(n) -- cold
  return own(n), hot(n)
end

return hot(1), hot(2), second(3)
`)
}

func TestColdFunctionsThatCanNotMoveStayFunctions(t *testing.T) {
	for name, script := range map[string]string{
		"only one": "local function one() -- cold\n  return 1\nend\nreturn one()\n",
		"value": "local function one() -- cold\n  return 1\nend\n" +
			"local function two() -- cold\n  return 2\nend\nreturn two(), f(one)\n",
		"called between": "local function one() -- cold\n  return 1\nend\nlocal a = one()\n" +
			"local function two() -- cold\n  return 2\nend\nreturn two()\n",
		"captured": "local function one() -- cold\n  return a\nend\nlocal a = 1, 2\n" +
			"local function two() -- cold\n  return 2\nend\nreturn two(), one()\n",
	} {
		t.Run(name, func(t *testing.T) {
			sources := tree(map[string]string{"a.lua": "-- a.\n\n" + script})
			require.NotContains(t, flatten(t, sources, "a"), "seldom")
		})
	}
}
