package luasrc_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// requireInlined checks what a script becomes.
func requireInlined(t *testing.T, want, script string) {
	t.Helper()
	sources := tree(map[string]string{"a.lua": "-- a.\n\n" + script})
	require.Equal(t, "-- a.\n"+want, compact(flatten(t, sources, "a")))
}

func TestAnExpressionTakesThePlaceOfCalls(t *testing.T) {
	requireInlined(t, `local prefix = KEYS[1]
local jid = ARGV[1]
redis.call('del', prefix .. 'j:' .. jid)
redis.call('del', (prefix .. 'j:' .. ('x' .. jid)))
redis.call('set', {name = prefix .. 'j:' .. jid}, string.format('%d', 5))
return redis.call('get', jid)
`, `local prefix = KEYS[1]

local function key(jid)
  return prefix .. 'j:' .. jid
end

local function whole(n)
  return string.format('%d', n)
end

local function get(jid)
  return redis.call('get', jid)
end

local jid = ARGV[1]
redis.call('del', key(jid))
redis.call('del', key('x' .. jid))
redis.call('set', {name = key(jid)}, whole(5))
return get(jid)
`)
}

func TestConcatenationsBecomeOne(t *testing.T) {
	requireInlined(t, `local queue = ARGV[1]
redis.call('del', 'q:' .. queue .. '-work-old')
redis.call('del', 'ab' == queue and (queue .. ' .. ') or ('q:' .. queue .. '-work') * 2)
return {('q:' .. queue .. '-work'):len(), 'q:' .. queue .. '-work'}
`, `local function key(queue)
  return 'q:' .. queue .. '-' .. 'work'
end

local queue = ARGV[1]
redis.call('del', key(queue) .. '-old')
redis.call('del', 'a' .. 'b' == queue and (queue .. ' .. ') or key(queue) * 2)
return {key(queue):len(), key(queue)}
`)
}

// What is called by seldom-run functions besides is copied into these.
func TestTheBodyOfAFunctionThatSeldomFunctionsCallTooTakesThePlaceOfItsCall(t *testing.T) {
	requireInlined(t, `local function seldom()
local function f(n)
  local m = n + 1
  return m
end
  return g(f(1), f(2))
end
local x
do
  local n = 3
  local m = n + 1
  x = m
end
if x == 5 then
  seldom()
end
return x
`, `local function f(n)
  local m = n + 1
  return m
end

local function nested()
  return g(f(1), f(2))
end

local function seldom() -- cold
  return nested()
end

local x = f(3)
if x == 5 then -- f and seldom in a comment are no calls
  seldom()
end
return x
`)
}

// An argument is evaluated once, and in its order.
func TestAnExpressionThatCanNotTakeThePlaceOfACallStaysAFunction(t *testing.T) {
	for name, script := range map[string]string{
		"twice":     "local function f(n)\n  return n + n\nend\nreturn f(g(1))\n",
		"order":     "local function f(a, b)\n  return b .. a\nend\nreturn f(g(1), g(2))\n",
		"few":       "local function f(a, b)\n  return a or b\nend\nreturn f(1)\n",
		"value":     "local function f(n)\n  return n\nend\nreturn g(f)\n",
		"statement": "local function f(n)\n  return n + 1\nend\nf(1)\n",
		"captured": "local n = 1\nlocal function f()\n  return n\nend\nlocal function g(n)\n" +
			"  h(n)\n  return f()\nend\nreturn g(2), g(3)\n",
	} {
		t.Run(name, func(t *testing.T) {
			sources := tree(map[string]string{"a.lua": "-- a.\n\n" + script})
			require.Equal(t, "-- a.\n"+script, compact(flatten(t, sources, "a")))
		})
	}
}

func TestTheBodyOfAFunctionTakesThePlaceOfItsCall(t *testing.T) {
	requireInlined(t, `do
  local a = ARGV[1]
  if a then
    redis.call('del', a)
  end
end
local b, c
repeat
  local d, e = 1
  if d == e then
    b, c = 1, 2
    break
  end
  for i = 1, 2 do
    redis.call('incr', i)
  end
  b, c = {
    d,
  }, e
until true
return b, c
`, `local function drop(a)
  if a then
    redis.call('del', a)
  end
end

local function pair(d, e)
  if d == e then
    return 1, 2
  end
  for i = 1, 2 do
    redis.call('incr', i)
  end
  return {
    d,
  }, e
end

drop(ARGV[1])
local b, c = pair(1)
return b, c
`)
}

func TestABodyAtTheEndOfAFunctionKeepsItsReturns(t *testing.T) {
	requireInlined(t, `do
  local list = ARGV
  for i = 1, #list do
    if list[i] == '' then
      return i
    end
  end
end
`, `local function find(list)
  for i = 1, #list do
    if list[i] == '' then
      return i
    end
  end
end

return find(ARGV)
`)
}

func TestABodyThatCanNotTakeThePlaceOfACallStaysAFunction(t *testing.T) {
	for name, script := range map[string]string{
		"returns in a loop":   "local function f(n)\n  for i = 1, n do\n    return i\n  end\nend\nlocal a = f(1)\nreturn a\n",
		"in an expression":    "local function f(n)\n  g(n)\n  return n\nend\nif f(1) then\n  g(2)\nend\n",
		"assigns an argument": "local function f(n)\n  g(n)\n  return n\nend\nlocal n = 1\nn = f(2)\nreturn n\n",
		"has a closure":       "local function f(n)\n  return g(function() return n end)\nend\nf(1)\n",
		"is recursive":        "local function f(n)\n  g(n)\n  f(n - 1)\nend\nf(1)\n",
		"any arguments":       "local function f(...)\n  g(...)\n  h(...)\nend\nf(1)\n",
		"in a cold one":       "local function f(n)\n  g(n)\n  h(n)\nend\nlocal function c()\n  f(1)\n  f(2)\nend\nif g then\n  c()\n  c()\nend\nf(3)\nreturn f\n",
	} {
		t.Run(name, func(t *testing.T) {
			sources := tree(map[string]string{"a.lua": "-- a.\n\n" + script})
			require.Contains(t, flatten(t, sources, "a"), "local function f(")
		})
	}
}

func TestASmallFunctionTakesThePlaceOfSeveralCalls(t *testing.T) {
	requireInlined(t, `do
  local a = 1
  g(a)
  h(a)
end
do
  local a = 2
  g(a)
  h(a)
end
`, `local function small(a)
  g(a)
  h(a)
end

small(1)
small(2)
`)
}
