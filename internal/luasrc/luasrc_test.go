package luasrc_test

import (
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/internal/luasrc"
	"github.com/qless/qless-go/internal/testkit"
)

// real are the sources of this module.
var real = os.DirFS("../../lua")

// tree makes sources of texts by file name.
func tree(files map[string]string) fs.FS {
	sources := fstest.MapFS{}
	for name, text := range files {
		sources[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return sources
}

func flatten(t *testing.T, sources fs.FS, command string) string {
	t.Helper()
	text, err := luasrc.Flatten(sources, command)
	require.NoError(t, err)
	return text
}

// plain flattens without moving what often runs.
func plain(t *testing.T, sources fs.FS, command string) string {
	t.Helper()
	text, err := luasrc.Plain(sources, command)
	require.NoError(t, err)
	return text
}

// flat returns the generated script of a command, which "make generated" compares.
func flat(t *testing.T, command string) string {
	t.Helper()
	return text(t, "flat/"+command+".lua")
}

// compact drops empty lines.
func compact(text string) string {
	return regexp.MustCompile(`\n+`).ReplaceAllString(text, "\n")
}

func TestPiecesAreTakenInOnceBeforeWhatNeedsThem(t *testing.T) {
	sources := tree(map[string]string{
		"a.lua":     "-- a: does it.\n-- More.\n\n-- @include \"lib/y.lua\"\n-- @include \"lib/x.lua\"\n\n-- A comment.\nreturn x(y())\n",
		"lib/x.lua": "-- x.\n\nlocal x_value = 1\n\nlocal function x(n)\n  -- Inside.\n  return n + x_value\nend\n",
		"lib/y.lua": "-- y.\n\n-- @include \"lib/x.lua\"\n\nlocal function y()\n  return x(2)\nend\n",
	})
	require.Equal(t, `-- a: does it.
-- More.
local x_value = 1
local function x(n)
  return n + x_value
end
local function y()
  return x(2)
end
return x(y())
`, compact(plain(t, sources, "a")))
}

func TestPiecesThatIncludeOneAnotherAreTakenInOnce(t *testing.T) {
	sources := tree(map[string]string{
		"a.lua":     "-- a.\n\n-- @include \"lib/x.lua\"\n\nreturn x()\n",
		"lib/x.lua": "-- x.\n\n-- @include \"lib/y.lua\"\n\nlocal function x()\n  return y\nend\n",
		"lib/y.lua": "-- y.\n\n-- @include \"lib/x.lua\"\n\nlocal y = 2\n",
	})
	require.Equal(t, "-- a.\nlocal y = 2\nlocal function x()\n  return y\nend\nreturn x()\n", compact(plain(t, sources, "a")))
}

func TestConstantsThatAreNotUsedAreLeftOut(t *testing.T) {
	sources := tree(map[string]string{
		"a.lua":     "-- a.\n\n-- @include \"lib/x.lua\"\n\nreturn used .. x\n",
		"lib/x.lua": "-- x.\n\nlocal used = ' '\nlocal unused = ' '\nlocal none = {}\nlocal many = 100\nlocal x = f()\n",
	})
	require.Equal(t, "-- a.\nlocal used = ' '\nlocal x = f()\nreturn used .. x\n", compact(plain(t, sources, "a")))
}

func TestConstantsInCapitalsAreReplacedByTheirValues(t *testing.T) {
	sources := tree(map[string]string{
		"a.lua":     "-- a.\n\n-- @include \"lib/x.lua\"\n\nreturn many(MANY, MANY_MORE, 'MANY', \"\" .. END)\n",
		"lib/x.lua": "-- x.\n\nlocal MANY = 100\nlocal END = ' MANY'\n\nlocal function many(n)\n  return n[MANY] .. END\nend\n",
	})
	require.Equal(t, `-- a.
local function many(n)
  return n[100] .. ' MANY'
end
return many(100, MANY_MORE, 'MANY', "" .. ' MANY')
`, compact(plain(t, sources, "a")))
}

// The fields of a job have constants for their places among those that are read.
func TestTheFieldsOfAJobAreInTheirPlaces(t *testing.T) {
	text, err := fs.ReadFile(real, "lib/jobs.lua")
	require.NoError(t, err)
	_, list, _ := strings.Cut(string(text), "run('hmget', job_key(jid), ")
	list, _, _ = strings.Cut(list, ")")
	list = strings.Replace(list, "x:o", "options", 1)
	var constants []string
	for i, field := range regexp.MustCompile(`\w+`).FindAllString(list, -1) {
		constants = append(constants, fmt.Sprintf("local %s = %d", strings.ToUpper(field), i+1))
	}
	require.Contains(t, string(text), strings.Join(constants, "\n")+"\n\n")
}

func TestFunctionsThatAreNotUsedAreLeftOut(t *testing.T) {
	sources := tree(map[string]string{
		"a.lua": "-- a.\n\n-- @include \"lib/x.lua\"\n\nreturn used('unused and other')\n",
		"lib/x.lua": `-- x.

local function deep(n)
  return n
end

local function unused()
  return only_for_unused()
end

local function used(n)
  return deep(n)
end

local function other()
  return used(1)
end
`,
	})
	text := plain(t, sources, "a")
	require.Contains(t, text, "local function deep(n)")
	require.Contains(t, text, "local function used(n)")
	require.NotContains(t, text, "local function unused")
	require.NotContains(t, text, "local function other")
}

func TestWhatOnlyAColdFunctionNeedsIsInsideOfIt(t *testing.T) {
	sources := tree(map[string]string{
		"a.lua": "-- a.\n\n-- @include \"lib/x.lua\"\n\nshared()\nif redis then\n  seldom(1)\nend\n",
		"lib/x.lua": `-- x.

local function shared()
  return 1
end

local function own(n)
  return n
end

local function colder() -- cold
  return own(2)
end

local function seldom(n) -- cold
  return own(n) + shared() + colder()
end
`,
	})
	require.Equal(t, `-- a.
local function shared()
  return 1
end
local function seldom(n)
local function own(n)
  return n
end
local function colder()
  return own(2)
end
  return own(n) + shared() + colder()
end
shared()
if redis then
  seldom(1)
end
`, compact(plain(t, sources, "a")))
}

// Functions that are apart would otherwise have one each.
func TestVariablesStayOutsideOfColdFunctions(t *testing.T) {
	sources := tree(map[string]string{
		"a.lua": "-- a.\n\n-- @include \"lib/x.lua\"\n\nseldom()\nif redis then\n  other()\nend\n",
		"lib/x.lua": `-- x.

local left = 7

local unused = 8

local constant = 9

local function spend() -- cold
  left = left - constant
end

local function waste() -- cold
  unused = unused - 1
end

local function seldom() -- cold
  spend()
end

local function other() -- cold
  spend()
end
`,
	})
	require.Equal(t, `-- a.
local left = 7
local function seldom()
local constant = 9
local function spend()
  left = left - constant
end
  spend()
end
local function other()
local constant = 9
local function spend()
  left = left - constant
end
  spend()
end
seldom()
if redis then
  other()
end
`, compact(plain(t, sources, "a")))
}

func TestTheDropInHasAPieceInThePlaceOfAnother(t *testing.T) {
	files := map[string]string{
		"lib/surface.lua":    "-- surface.\n\nlocal EMPTY = 'ours'\n",
		"dropin/surface.lua": "-- surface.\n\nlocal EMPTY = 'theirs'\n",
	}
	for _, command := range []string{"pop", "put", "complete", "heartbeat", "retry", "fail"} {
		files[command+".lua"] = "-- " + command + ".\n\n-- @include \"lib/surface.lua\"\n\nreturn EMPTY\n"
	}
	sources := tree(files)
	require.Contains(t, flatten(t, sources, "pop"), "return 'ours'")
	text, err := luasrc.DropIn(sources)
	require.NoError(t, err)
	require.Equal(t, 6, strings.Count(text, "return 'theirs'"))
	require.NotContains(t, text, "ours")
}

func TestWhatIsMissingIsAnError(t *testing.T) {
	sources := tree(map[string]string{
		"a.lua":     "-- a.\n\n-- @include \"lib/gone.lua\"\n\nreturn 1\n",
		"b.lua":     "-- b.\n\n-- @include \"lib/x.lua\"\n\nreturn 1\n",
		"lib/x.lua": "-- x.\n\n-- @include \"lib/gone.lua\"\n\nlocal x = 1\n",
	})
	for _, command := range []string{"a", "b", "unknown"} {
		_, err := luasrc.Flatten(sources, command)
		require.ErrorIs(t, err, fs.ErrNotExist, command)
	}
	_, err := luasrc.DropIn(sources)
	require.ErrorIs(t, err, fs.ErrNotExist)
}

func TestCommandsAreTheFilesInOrder(t *testing.T) {
	commands, err := luasrc.Commands(tree(map[string]string{
		"put.lua": "", "a.b.lua": "", "qless.lua": "", "lib/x.lua": "", "readme.md": "",
	}))
	require.NoError(t, err)
	require.Equal(t, []string{"a.b", "put"}, commands)
}

func TestTheDropInHasEveryCommand(t *testing.T) {
	commands, err := luasrc.Commands(real)
	require.NoError(t, err)
	text := text(t, luasrc.DropInName)
	for _, command := range commands {
		require.Equal(t, 1, strings.Count(text, "if command == '"+command+"' then\n"), command)
	}
	require.True(t, strings.HasPrefix(text, "-- Code generated"))
}

func TestServersLoadEveryScript(t *testing.T) {
	rdb := testkit.Start(t).Client(t)
	commands, err := luasrc.Commands(real)
	require.NoError(t, err)
	require.Greater(t, len(commands), 30)
	for _, command := range commands {
		require.NoError(t, rdb.ScriptLoad(t.Context(), flat(t, command)).Err(), command)
	}
	require.NoError(t, rdb.ScriptLoad(t.Context(), text(t, luasrc.DropInName)).Err())
}

var functionName = regexp.MustCompile(`(?m)^local function (\w+)\(`)

// Pieces meet in one script, so that a name can mean one thing only.
func TestNoTwoFunctionsHaveOneName(t *testing.T) {
	pieces, err := fs.Glob(real, "lib/*.lua")
	require.NoError(t, err)
	where := map[string]string{}
	for _, file := range pieces {
		for _, name := range functions(t, file) {
			require.NotContains(t, where, name, file)
			where[name] = file
		}
	}
	commands, err := fs.Glob(real, "*.lua")
	require.NoError(t, err)
	for _, file := range commands {
		if file == luasrc.DropInName {
			continue
		}
		for _, name := range functions(t, file) {
			require.NotContains(t, where, name, file)
		}
	}
}

func functions(t *testing.T, file string) []string {
	text, err := fs.ReadFile(real, file)
	require.NoError(t, err)
	var names []string
	for _, m := range functionName.FindAllStringSubmatch(string(text), -1) {
		names = append(names, m[1])
	}
	return names
}

func TestEveryCommandHasItsHeader(t *testing.T) {
	commands, err := luasrc.Commands(real)
	require.NoError(t, err)
	for _, command := range commands {
		text := flat(t, command)
		require.True(t, strings.HasPrefix(text, "-- "+command+": "), command)
		for _, part := range []string{"-- KEYS[1]  ", "-- ARGV     NOW", "-- Returns  ", "-- Errors   ", "-- Cost     "} {
			require.Contains(t, text, "\n"+part, command)
		}
	}
}
