package luasrc

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

// sources are the sources of this project.
var sources = os.DirFS("../../lua")

// header returns the header of a command, with more lines.
func header(more ...string) string {
	lines := []string{
		"-- a: does something.", "--", "-- Args     none", "-- Returns  nil", "-- For      Go", "-- Repeat   safe",
	}
	return strings.Join(append(lines, more...), "\n") + "\n\n"
}

// tiny returns a source tree with a library and one command, a.
func tiny(library, command string) fs.FS {
	return fstest.MapFS{
		"prologue.lua": {Data: []byte(`
local call = redis.call
local prefix = KEYS[1] or 'ql:'
local command = ARGV[1]
local stamp, now = ARGV[2], 1
`)},
		"lib/base.lua":   {Data: []byte("-- The library.\n\n" + library)},
		"commands/a.lua": {Data: []byte(command)},
	}
}

// built returns the branch of the command a in the script of a tiny tree.
func built(t *testing.T, library, command string) string {
	t.Helper()
	sources, err := read(tiny(library, command), nil)
	require.NoError(t, err)
	script := sources.printed("")
	compiles(t, script)
	before, rest, ok := strings.Cut(script, "if command == 'a' then\n")
	require.True(t, ok, script)
	depth := before[strings.LastIndex(before, "\n")+1:]
	var lines []string
	for line := range strings.Lines(rest) {
		line = strings.TrimSuffix(strings.TrimPrefix(line, depth), "\n")
		if line == "end" {
			break
		}
		bare := strings.TrimLeft(line, "\t")
		lines = append(lines, strings.Repeat("  ", len(line)-len(bare))+bare)
	}
	return strings.Join(lines, "\n")
}

// compiles checks that Lua, if installed, can read a script.
func compiles(t *testing.T, script string) {
	t.Helper()
	luac, err := exec.LookPath("luac5.1")
	if err != nil {
		return // the tests of the commands load the script into servers
	}
	file := filepath.Join(t.TempDir(), "script.lua")
	require.NoError(t, os.WriteFile(file, []byte(script), 0o600))
	output, err := exec.Command(luac, "-p", file).CombinedOutput()
	require.NoError(t, err, "%s\n%s", output, script)
}

func TestBuild(t *testing.T) {
	for name, c := range map[string]struct{ library, command, branch string }{
		"a function of the library": {
			"local function get(key)\n  local value = call('get', key)\n  return value or call('get', 'x')\nend\n",
			header() + "return get(ARGV[2])\n",
			"  cold(stamp, now)\n  return lib.get(ARGV[2])",
		},
		"hot: a constant, and a function that only returns": {
			"local LIMIT = 10\nlocal function key_of(jid)\n  return prefix .. 'j:' .. jid\nend\n",
			header("-- Hot") + "return call('get', key_of(ARGV[2]) .. '-' .. 'x', LIMIT)\n",
			"  return call('get', prefix .. 'j:' .. ARGV[2] .. '-x', 10)",
		},
		"an argument that is needed twice": {
			"local function both(x)\n  return x .. x\nend\n",
			header() + "return both(call('get', 'x'))\n",
			"  cold(stamp, now)\n  return lib.both(call('get', 'x'))",
		},
		"a variable": {
			"local seen = 0\nlocal function see()\n  seen = seen + 1\n  call('get', 'x')\nend\n",
			header() + "see()\nreturn seen\n",
			"  var = var or {seen = 0}\n  cold(stamp, now)\n  lib.see()\n  return var.seen",
		},
		"hot: a statement": {
			"local function see(n)\n  local m = n + 1\n  call('set', 'x', m)\nend\n",
			header("-- Hot") + "local m = 2\nsee(m)\n",
			"  local m = 2\n  do\n    local m2 = m + 1\n    call('set', 'x', m2)\n  end\n  return",
		},
		"hot: a value by several ways": {
			"local function find(n)\n  if n == 1 then\n    return 'one'\n  end\n  for i = 1, n do\n    call('get', i)\n  end\nend\n",
			header("-- Hot") + "local found = find(#ARGV)\nreturn found\n",
			"  local found\n  repeat\n    local n = #ARGV\n    if n == 1 then\n      found = 'one'\n      break\n    end\n" +
				"    for i = 1, n do\n      call('get', i)\n    end\n  until true\n  return found",
		},
		"hot: a value, or one from later": {
			"local function find(n)\n  if n == 1 then\n    local one = call('get', 1)\n    if one then\n      return one\n    end\n  end\n" +
				"  return call('get', n)\nend\n",
			header("-- Hot") + "local found = find(#ARGV)\nreturn found\n",
			"  local found\n  repeat\n    local n = #ARGV\n    if n == 1 then\n      local one = call('get', 1)\n" +
				"      if one then\n        found = one\n        break\n      end\n    end\n    found = call('get', n)\n  until true\n  return found",
		},
		"hot: nothing unless": {
			"local function see(n)\n  if n ~= 1 then\n    return\n  end\n  call('get', n)\nend\n",
			header("-- Hot") + "local n = #ARGV\nsee(n)\nreturn n\n",
			"  local n = #ARGV\n  repeat\n    if n ~= 1 then\n      break\n    end\n    call('get', n)\n  until true\n  return n",
		},
		"hot: variables of the function are the results": {
			"local function need(text)\n  if not text then\n    error('x')\n  end\n  return text\nend\n" +
				"local function count(n)\n  local from, sum = n, 0\n  for i = from, n do\n    sum = sum + call('get', i)\n  end\n  return sum\nend\n",
			header("-- Hot") + "local jid = need(ARGV[2])\nlocal all = count(jid)\nreturn all\n",
			"  local jid\n  do\n    local text = ARGV[2]\n    if not text then\n      error('x')\n    end\n    jid = text\n  end\n  local all\n  do\n    local from, sum = jid, 0\n" +
				"    for i = from, jid do\n      sum = sum + call('get', i)\n    end\n    all = sum\n  end\n  return all",
		},
		"hot: arguments that are left out": {
			"local function add(a, b)\n  local sum = a .. (b or 'y')\n  call('set', 'x', sum)\nend\n",
			header("-- Hot") + "add(call('get', 'x'))\nadd(unpack(ARGV))\n",
			"  do\n    local a = call('get', 'x')\n    local sum = a .. 'y'\n    call('set', 'x', sum)\n  end\n" +
				"  do\n    local a, b = unpack(ARGV)\n    local sum = a .. (b or 'y')\n    call('set', 'x', sum)\n  end\n  return",
		},
		"hot: two variables are the results": {
			"local function split(n)\n  local a, b = n, call('get', n)\n  if b then\n    a = b + n\n  end\n  return b, a\nend\n",
			header("-- Hot") + "local x, y = split(#ARGV)\nx, y = split(x)\nreturn x + y\n",
			"  local x, y\n  do\n    local n = #ARGV\n    local a, b = n, call('get', n)\n    if b then\n      a = b + n\n    end\n" +
				"    x, y = b, a\n  end\n" +
				"  do\n    local n = x\n    local a, b = n, call('get', n)\n    if b then\n      a = b + n\n    end\n    x, y = b, a\n  end\n" +
				"  return x + y",
		},
		"hot: a function of the library that it calls there": {
			"local function see(n)\n  local m = n + 1\n  call('set', 'x', m)\nend\n",
			header("-- Hot\n-- Library  see") + "see(ARGV[2])\nsee(ARGV[3])\n",
			"  cold(stamp, now).see(ARGV[2])\n  cold(stamp, now).see(ARGV[3])\n  return",
		},
		"hot: a return in a loop": {
			"local function find(n)\n  for i = 1, n do\n    if call('get', i) then\n      return i\n    end\n  end\nend\n",
			header("-- Hot") + "local found = find(#ARGV)\nreturn found\n",
			"  local function find(n)\n    for i = 1, n do\n      if call('get', i) then\n        return i\n      end\n    end\n  end\n" +
				"  local found = find(#ARGV)\n  return found",
		},
		"hot: a cold function, and a variable that it changes": {
			"local seen = 0\nlocal function see() -- cold\n  seen = seen + 1\nend\n",
			header("-- Hot") + "if call('get', 'x') then\n  see()\nend\nreturn seen\n",
			"  if call('get', 'x') then\n    cold(stamp, now).see()\n  end\n  var = var or {seen = 0}\n  return var.seen",
		},
		"hot: a variable of the library alone": {
			"local seen = 0\nlocal function see() -- cold\n  seen = seen + 1\n  call('get', seen)\nend\n",
			header("-- Hot") + "if call('get', 'x') then\n  see()\nend\n",
			"  if call('get', 'x') then\n    cold(stamp, now).see()\n  end\n  return",
		},
		"hot: all values of another function": {
			"local function each(x)\n  local n = x + 1\n  return n, x\nend\nlocal function both(x)\n  return each(x)\nend\n",
			header("-- Hot") + "local a, b = both(#ARGV)\nreturn a + b + each(both(1))\n",
			"  local function each(x)\n    local n = x + 1\n    return n, x\n  end\n" +
				"  local a, b = each(#ARGV)\n  return a + b + each(each(1))",
		},
		"hot: a function after what does not need it": {
			"local function find(n)\n  for i = 1, n do\n    if call('get', i) then\n      return i\n    end\n  end\nend\n",
			header("-- Hot") + "if not ARGV[2] then\n  return\nend\nlocal found = find(#ARGV)\nreturn found\n",
			"  if not ARGV[2] then\n    return\n  end\n  local function find(n)\n    for i = 1, n do\n      if call('get', i) then\n        return i\n      end\n    end\n  end\n" +
				"  local found = find(#ARGV)\n  return found",
		},
		"hot: an operator in an argument and in a value": {
			"local function half(x)\n  return x / 2\nend\n",
			header("-- Hot") + "return half(ARGV[2] + 1) * half(half(now))\n",
			"  return ((ARGV[2] + 1) / 2) * (((now / 2)) / 2)",
		},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.branch, built(t, c.library, c.command))
		})
	}
}

func TestBuildRefuses(t *testing.T) {
	get := header() + "return call('get', get_key())\n"
	library := "local function get_key()\n  return 'x'\nend\n"
	_, err := Build(tiny(library, get))
	require.NoError(t, err)
	for want, c := range map[string]struct{ library, command string }{
		"lib/base.lua:6: get_key hides that of lib/base.lua:3": {library + library, get},
		"commands/a.lua:1: the header says more about the Cost than fits on a line": {library,
			strings.Replace(get, "-- For ", "-- Cost     1 command\n--          "+strings.Repeat("more ", 20)+"\n-- For ", 1)},
		"commands/a.lua:8: get_keys is not defined":                                    {library, header() + "return call('get', get_keys())\n"},
		"commands/a.lua:8: get_key hides that of lib/base.lua:3":                       {library, header() + "local get_key = 1\nreturn call('get', get_key)\n"},
		"lib/base.lua:6: no command needs spare":                                       {library + "local function spare()\n  return 1\nend\n", get},
		"commands/a.lua:8: see is cold, so it belongs in lib":                          {library, header() + "local function see() -- cold\nend\nsee(get_key())\n"},
		"commands/a.lua:9: nothing uses spare":                                         {library, header() + "do\n  local spare = 1\nend\nreturn call('get', get_key())\n"},
		"commands/a.lua:8: prefix belongs to every call":                               {library, header() + "prefix = get_key()\nreturn call('get', 'x')\n"},
		"commands/a.lua:8: redis is a global variable":                                 {library, header() + "redis = get_key()\nreturn call('get', 'x')\n"},
		"lib/base.lua:1: a statement outside of a function":                            {library + "call('get', 'x')\n", get},
		`commands/a.lua:1: the header lacks "Repeat safe" or "once"`:                   {library, strings.Replace(get, "Repeat   safe", "Repeat   twice", 1)},
		`commands/a.lua:1: the header lacks "For classic", "For PHP" or "For Go"`:      {library, strings.Replace(get, "For      Go", "For      all", 1)},
		"commands/a.lua:1: the header does not say what the arguments are":             {library, strings.Replace(get, "Args     none", "ARGV     none", 1)},
		`commands/a.lua:8: "then" in the place of "do"`:                                {library, header() + "while true then end\n"},
		`commands/a.lua:8: "function" in the place of a name`:                          {library, header() + "function x() end\n"},
		"commands/a.lua:8: '\\'' is no part of Lua, or begins a string without an end": {library, header() + "return 'x\n"},
	} {
		t.Run(want, func(t *testing.T) {
			_, err := Build(tiny(c.library, c.command))
			require.EqualError(t, err, want)
			var problem *Problem
			require.ErrorAs(t, err, &problem)
		})
	}
}

// A script of other commands has the parts of the library that they need, and may have its own
// library.
func TestBuildDoctor(t *testing.T) {
	shared := tiny("local function key_of(jid)\n  local key = prefix .. jid\n  return key .. key\nend\n"+
		"local function spare()\n  call('get', 'x')\nend\n", "")
	build := func(library, command string) (string, error) {
		return BuildDoctor(shared, fstest.MapFS{
			"lib/own.lua":      {Data: []byte(library)},
			"commands/see.lua": {Data: []byte(command)},
		})
	}
	own := "local function see(jid)\n  call('set', key_of(jid), '1')\nend\n"
	script, err := build(own, "return see(ARGV[3])\n")
	require.NoError(t, err)
	compiles(t, script)
	require.Contains(t, script, "call('set', lib.key_of(jid), '1')\n")
	require.Contains(t, script, "function lib.key_of(jid)")
	require.NotContains(t, script, "spare")
	require.NotContains(t, script, "'a'")
	for want, c := range map[string]struct{ library, command string }{
		"commands/see.lua:1: sea is not defined":                  {own, "return sea(ARGV[3])\n"},
		"lib/own.lua:4: no command needs unused":                  {own + "local function unused() end\n", "return see(ARGV[3])\n"},
		"lib/own.lua:1: spare hides that of lib/base.lua:7":       {"local function spare() end\n", "spare()\n"},
		"commands/see.lua:1: key_of hides that of lib/base.lua:3": {own, "local key_of = see\nkey_of(ARGV[3])\n"},
	} {
		_, err := build(c.library, c.command)
		require.EqualError(t, err, want)
	}
}

// own and ownClassic are the scripts of this project, which take seconds to build.
var (
	own        = sync.OnceValues(func() (string, error) { return Build(sources) })
	ownClassic = sync.OnceValues(func() (string, error) { return BuildClassic(sources) })
)

// The script begins with its description, its version, and its commands.
func TestTheScriptSaysWhatItIs(t *testing.T) {
	script, err := own()
	require.NoError(t, err)
	header, _, _ := strings.Cut(script, "\n\n")
	lines := strings.Split(header, "\n")
	require.LessOrEqual(t, len(lines), 15)
	for _, line := range lines {
		require.True(t, strings.HasPrefix(line, "--"), line)
	}
	require.Contains(t, header, "version "+version+":")
}

// The script for classic clients has only the commands that they send, and is smaller.
func TestBuildClassic(t *testing.T) {
	script, err := ownClassic()
	require.NoError(t, err)
	compiles(t, script)
	all, err := own()
	require.NoError(t, err)
	require.Less(t, len(script), len(all)*3/4)
	t.Logf("%d of %d bytes", len(script), len(all))
	for command, has := range map[string]bool{
		"put": true, "pop": true, "requeue": true, "popByJid": true, "reserve": false, "put.many": false,
	} {
		require.Equal(t, has, strings.Contains(script, "if command == '"+command+"' then\n"), command)
	}
}

// The size given in docs/sharing.md and the drop-in; each function occurs once, and is used.
func TestTheScriptIsSmall(t *testing.T) {
	script, err := own()
	require.NoError(t, err)
	again, err := Build(sources)
	require.NoError(t, err)
	require.Equal(t, script, again)
	require.LessOrEqual(t, len(script), 450_000)
	compiles(t, script)
	named := map[string]int{}
	for _, m := range regexp.MustCompile(`\b(?:lib|cold\(stamp, now\))\.(\w+)`).FindAllStringSubmatch(script, -1) {
		named[m[1]]++
	}
	seen := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^\t*function lib\.(\w+)\(`).FindAllStringSubmatch(script, -1) {
		require.False(t, seen[m[1]], "%s is there twice", m[1])
		seen[m[1]] = true
		require.Greater(t, named[m[1]], 1, "nothing calls %s", m[1])
	}
	require.Greater(t, len(seen), 250)
	for name := range named {
		require.True(t, seen[name], "the library lacks %s", name)
	}
	commands, err := Commands(sources)
	require.NoError(t, err)
	for _, command := range commands {
		require.Equal(t, 1, strings.Count(script, "if command == '"+command+"' then\n"), command)
	}
}

// Classic clients read the script as UTF-8 text.
func TestScriptsAreASCII(t *testing.T) {
	var all strings.Builder
	for c := range 256 {
		fmt.Fprintf(&all, "\\%03d", c)
	}
	script, err := Build(tiny("", header()+"return call('get', '"+all.String()+"')\n"))
	require.NoError(t, err)
	compiles(t, script)
	again, err := tokens("script.lua", script)
	require.NoError(t, err)
	at := slices.IndexFunc(again, func(t token) bool { return t.kind == stringToken && len(t.text) == 256 })
	require.GreaterOrEqual(t, at, 0)
	for c := range 256 {
		require.EqualValues(t, c, again[at].text[c])
	}
	drop, err := own()
	require.NoError(t, err)
	classic, err := ownClassic()
	require.NoError(t, err)
	for _, text := range []string{script, drop, classic} {
		require.NotRegexp(t, `[^\x00-\x7f]`, text)
	}
}

func TestSourcesAreASCII(t *testing.T) {
	for _, line := range []string{"-- caf\u00e9", "call('get', '\u00e9')", "call('get', '\xc0')"} {
		_, err := Build(tiny("", header()+"call('get', 'x')\n"+line+"\n"))
		require.ErrorContains(t, err, "commands/a.lua:9: a byte above 127", line)
	}
}

// A source file can be read in one go.
func TestSourcesAreShort(t *testing.T) {
	for _, pattern := range []string{"*/*.lua", "prologue.lua"} {
		files, err := fs.Glob(sources, pattern)
		require.NoError(t, err)
		require.NotEmpty(t, files)
		for _, file := range files {
			text, err := fs.ReadFile(sources, file)
			require.NoError(t, err)
			require.LessOrEqual(t, strings.Count(string(text), "\n"), 350, file)
		}
	}
	reserve, err := fs.ReadFile(sources, "commands/reserve.lua")
	require.NoError(t, err)
	require.LessOrEqual(t, strings.Count(string(reserve), "\n"), 200)
}

// The fields in a reply of HMGET have names, never numbers, unless read by a varying index.
func TestFieldsHaveNames(t *testing.T) {
	read := regexp.MustCompile(`(?m)([\w, ]+) = (?:[^\n(]* )?(?:call|try|run)\('hmget'`)
	numbered := func(code string) []string {
		found := regexp.MustCompile(`\bjob\[\d+\]|'hmget'[^\n]*\)\[\d+\]`).FindAllString(code, -1)
		for function := range strings.SplitSeq(code, "\nend\n") {
			for _, names := range read.FindAllStringSubmatch(function, -1) {
				for name := range strings.SplitSeq(strings.TrimPrefix(strings.TrimSpace(names[1]), "local "), ", ") {
					found = append(found, regexp.MustCompile(`\b`+name+`\[\d+\]`).FindAllString(function, -1)...)
				}
			}
		}
		return found
	}
	for _, bad := range []string{
		"local function a(job)\n  return job[1]\nend\n",
		"local old = call('hmget', 'x', 'y')\nreturn old[1]\n",
		"local found, n = has and try('hmget', 'x', 'y') or none, 0\nreturn found[12]\n",
		"return finite(try('hmget', 'x', 'y')[1])\n",
	} {
		require.Len(t, numbered(bad), 1, bad)
	}
	files, err := fs.Glob(sources, "*/*.lua")
	require.NoError(t, err)
	for _, file := range files {
		text, err := fs.ReadFile(sources, file)
		require.NoError(t, err)
		require.Empty(t, numbered(string(text)), file)
	}
}

// No text makes the parser panic, and any accepted text stays the same when printed and read again.
func FuzzParse(f *testing.F) {
	for _, pattern := range []string{"*.lua", "lib/*.lua", "commands/*.lua"} {
		files, err := fs.Glob(sources, pattern)
		require.NoError(f, err)
		for _, file := range files {
			if text, err := fs.ReadFile(sources, file); err == nil && len(text) < 20_000 {
				f.Add(string(text))
			}
		}
	}
	f.Add("local a = {[1] = -2 ^ 2, b = not a == b, 'x\\001', ...}")
	f.Fuzz(func(t *testing.T, code string) {
		src, err := parse("x.lua", code)
		if err != nil {
			return
		}
		p := &printer{}
		p.stats(src.body)
		again, err := parse("x.lua", p.b.String())
		require.NoError(t, err, p.b.String())
		q := &printer{}
		q.stats(again.body)
		require.Equal(t, p.b.String(), q.b.String())
	})
}

// Each function that passes on the name of a command is a caller.
func TestPassersOfCommandsAreCallers(t *testing.T) {
	files, err := filepath.Glob("../../lua/[cl]*/*.lua")
	require.NoError(t, err)
	begun := regexp.MustCompile(`^local function (\w+)`)
	names := strings.Join(slices.Collect(maps.Keys(callers)), "|")
	passed := regexp.MustCompile(`\b(?:` + names + `)\((\w+)[,)]`)
	for _, file := range append(files, "../../lua/prologue.lua") {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		function := ""
		for line := range strings.Lines(string(text)) {
			if begin := begun.FindStringSubmatch(line); begin != nil {
				function = begin[1]
			} else if pass := passed.FindStringSubmatch(line); pass != nil && !callers[pass[1]] {
				require.True(t, callers[function], "%s: %s", file, line)
			}
		}
	}
}
