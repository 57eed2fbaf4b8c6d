package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func changed(t *testing.T, find func(string) ([]change, error), code string) []string {
	t.Helper()
	all, err := find(code)
	require.NoError(t, err)
	var texts []string
	for _, c := range all {
		c.code = []byte(code)
		_, after, _ := strings.Cut(c.String(), " → ")
		texts = append(texts, after)
	}
	return texts
}

func TestChangesOfLua(t *testing.T) {
	require.Equal(t, []string{
		"if #a >= 1 and not b then -- 1 > 2", "if #a > 2 and not b then -- 1 > 2",
		"if #a > 1 or not b then -- 1 > 2", "if #a > 1 and b then -- 1 > 2",
		"if not (#a > 1 and not b) then -- 1 > 2", ""},
		changed(t, luaChanges, "if #a > 1 and not b then -- 1 > 2\n\tcall('x < 2',\n\t\tf(a))\nend\n"))
}

func TestChangesOfGo(t *testing.T) {
	code := "package a\n\nfunc f(n int, is bool) bool {\n" +
		"\tif is {\n\t\tgo1(n)\n\t}\n\treturn n+1 < 5 && true\n}\n"
	require.Equal(t, []string{"if !(is) {", "", "return (n+1 < 5 || true)",
		"return (n+1 <= 5) && true", "return n+1 < 6 && true", "return n + 2 < 5 && true"},
		changed(t, goChanges, code))
}

func TestGoChangesAreGuarded(t *testing.T) {
	code := "package a\n\nfunc f() { g(1) }\n"
	found, err := goChanges(code)
	require.NoError(t, err)
	b := &bench{changes: append([]change{{}}, found...)}
	require.Equal(t, "package a\n\nfunc f() { if !mutant(2) { g(1) } }\n", b.guarded(code, []int{1}))
}

func TestChangesThatDoNotCompileAreLeftOut(t *testing.T) {
	code := []byte("a\nb\n")
	all := apart([]change{{file: "x/a.go", code: code, at: 2, end: 3},
		{file: "x/a.go", code: code, at: 2, end: 3, text: "c"}, {file: "x/a.go", code: code}})
	require.Len(t, all, 2)
	want := all[1]
	require.Equal(t, []change{want}, without(all, "# x\nx/a.go:2:1: no type\n"))
}

func TestScriptsAreReadFromFiles(t *testing.T) {
	require.Equal(t, "import _ \"os\"\nvar text = mutantScript(\"a.lua\")\n",
		patch("import _ \"embed\"\n//go:embed lua/a.lua\nvar text string\n"))
}

// A condition of elseif is marked before its if.
func TestMarks(t *testing.T) {
	code := "-- a: gets.\n--\n-- Args     none\n-- For      Go\n-- Repeat   safe\n\n" +
		"if not now then\n\tcall('get', prefix)\nelseif now > 1 then\n\treturn now\nend\n"
	prologue := "local call, prefix, now, command = redis.call, KEYS[1], ARGV[2], ARGV[1]\n"
	s := luaSources{}.with("lua/prologue.lua", []byte(prologue)).
		with("lua/commands/a.lua", []byte(code))
	for at, want := range map[string]string{
		"call(": "mutant 7') \tcall(", "now >": "mutant 7') if not",
	} {
		c := change{file: "lua/commands/a.lua", code: []byte(code), at: strings.Index(code, at)}
		marked, ok := s.marked(c, 7)
		require.True(t, ok)
		require.Contains(t, string(marked[c.file].Data), want)
	}
}

func TestTheTestsThatReachAChangeAreRead(t *testing.T) {
	b := &bench{changes: make([]change, 2), reaches: map[string]int{}, seconds: map[string]float64{}}
	b.reached = []map[string][]string{{}, {}}
	_, failed := b.read(strings.NewReader("=== RUN   TestA\n\nmutant 1\n--- PASS: TestA (1.50s)\n"+
		"=== RUN   TestB\n=== RUN   TestB/x\n\nmutant 2\n--- PASS: TestB (0.50s)\n"+
		"=== RUN   TestC\n--- FAIL: TestC (0.00s)\n"), "p")
	require.Equal(t, []string{"TestC"}, failed)
	require.Equal(t, []map[string][]string{{"p": {"TestA"}}, {"p": {"TestA", "TestB"}}}, b.reached)
	require.Equal(t, map[string]int{"p TestA": 2, "p TestB": 1}, b.reaches)
	require.Equal(t, 1.5, b.seconds["p TestA"])
	require.Equal(t, 2.0, b.seconds["p .*"])
}

func TestAChoiceIsRepeatedByItsSeed(t *testing.T) {
	t.Chdir("../../..")
	a, err := choose(6, 3, "^lua/lib|^put.go")
	require.NoError(t, err)
	require.Len(t, a, 6)
	b, err := choose(6, 3, "^lua/lib|^put.go")
	require.NoError(t, err)
	require.Equal(t, a, b)
}
