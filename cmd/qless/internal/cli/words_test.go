package cli_test

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/cmd/qless/internal/cli"
	"github.com/qless/qless-go/cmd/qless/internal/usage"
	"github.com/qless/qless-go/qlesstest"
)

// at runs the program in this process.
func at(url string, args ...string) run {
	var out, errs bytes.Buffer
	status := cli.Main(append(args, "--redis", url), strings.NewReader(""), &out, &errs)
	return run{status, out.String(), errs.String()}
}

// nowhere is a URL without a server.
const nowhere = "redis://127.0.0.1:1"

func TestAnUnknownCommandHasAHint(t *testing.T) {
	for words, want := range map[string]string{
		"staus":          `"qless"; did you mean "status"?`,
		"queue paus":     `"qless queue"; did you mean "pause"?`,
		"queue unpause":  `"qless queue"; did you mean "resume"?`,
		"queue rm mail":  `"qless queue"; did you mean "forget"?`,
		"queue purge x":  `"qless queue"; did you mean "qless job cancel"?`,
		"job rm x":       `"qless job"; did you mean "cancel"?`,
		"job delete x":   `"qless job"; did you mean "cancel"?`,
		"worker list":    `"qless worker"; did you mean "ls"?`,
		"purge mail":     `"qless"; did you mean "qless job cancel"?`,
		"clear":          `"qless"; did you mean "qless job cancel"?`,
		"pause mail":     `"qless"; did you mean "qless queue pause"?`,
		"put mail K":     `"qless"; did you mean "qless config set" or "qless job put" or "qless limit set"?`,
		"stats":          `"qless"; did you mean "qless queue ls" or "qless queue stats"?`,
		"events":         `"qless"; did you mean "tail"?`,
		"context delete": `"qless context"; did you mean "rm"?`,
		"zzzzzz":         `"qless"; qless --help lists them`,
	} {
		r := at(nowhere, strings.Fields(words)...)
		require.Equal(t, 2, r.status, words)
		require.Contains(t, r.errors, " for "+want+"\n", words)
	}
}

func TestMissingAndUnexpectedArgumentsAreNamed(t *testing.T) {
	for words, want := range map[string]string{
		"config set heartbeat": "VALUE is missing",
		"job put mail":         "KLASS is missing",
		"job ls mail":          "unexpected argument \"mail\"; did you mean --queue mail?",
		"status mail":          "unexpected argument \"mail\"",
	} {
		r := at(nowhere, strings.Fields(words)...)
		require.Equal(t, 2, r.status, words)
		require.Contains(t, r.errors, "qless: "+want+"\nusage: qless "+words[:strings.LastIndex(words, " ")])
	}
	for _, command := range leaves(cli.Root()) {
		path := strings.Fields(command.CommandPath())[1:]
		usage, _, _ := strings.Cut(command.Use, "\n")
		wanted := strings.Fields(usage)[1:]
		status := 2
		if path[0] == "check" {
			status = 3
		}
		if !strings.HasSuffix(usage, "...]") && !strings.HasSuffix(usage, "...") {
			r := at(nowhere, append(path, "1", "2", "3", "4")...)
			require.Equal(t, status, r.status, usage)
			if command.Name() != "use" { // cobra's own error lists the valid arguments
				require.Regexp(t, "unexpected argument \"[1-4]\"", r.errors, usage)
			}
		}
		if len(wanted) > 0 && wanted[0][0] != '[' {
			r := at(nowhere, path...)
			require.Equal(t, status, r.status, usage)
			if command.Name() != "use" {
				require.Contains(t, r.errors, strings.TrimSuffix(wanted[0], "...")+" is missing\n", usage)
			}
		}
	}
}

func TestWordsAreMeantForCommandsThatExist(t *testing.T) {
	paths := map[string]bool{}
	for _, command := range leaves(cli.Root()) {
		paths[strings.TrimPrefix(command.CommandPath(), "qless ")] = true
	}
	paths["serve"] = true
	for path := range usage.Meant {
		require.True(t, paths[path], path)
	}
}

// Each command has a hint for its own name and for its flags, each with a letter too few.
func TestAMisspeltWordHasAHint(t *testing.T) {
	for _, command := range leaves(cli.Root()) {
		path := strings.Fields(command.CommandPath())[1:]
		if name := path[len(path)-1]; len(name) > 3 {
			wrong := append(path[:len(path)-1:len(path)-1], name[:1]+name[2:])
			require.Contains(t, at(nowhere, wrong...).errors, `did you mean "`, wrong)
		}
		command.Flags().VisitAll(func(flag *pflag.Flag) {
			if len(flag.Name) > 3 && flag.Name != "help" {
				wrong := append(path[:len(path):len(path)], "--"+flag.Name[:1]+flag.Name[2:])
				require.Contains(t, at(nowhere, wrong...).errors, "did you mean --", wrong)
			}
		})
	}
}

func TestABadFlagSaysWhatItTakes(t *testing.T) {
	for words, want := range map[string]string{
		"limit set shop --rate 10/s":    `"10/s" for --rate is not a whole number`,
		"limit set shop --per soon":     `"soon" for --per is not a duration like 1m30s`,
		"queue ls --json=maybe":         `"maybe" for --json is not true or false`,
		"job find --limit many --tag t": `"many" for --limit is not a whole number`,
		"job put mail K --priority x":   `"x" for --priority is not a number`,
		"job put mail K --at noon":      `"noon" for --at is not a time like 2026-11-22T18:00:00Z`,
		"queue ls --nope":               `unknown flag: --nope; qless queue ls --help lists them`,
		"status --jsn":                  `unknown flag: --jsn; did you mean --json?`,
		"recur put mail K":              "--every is needed\nusage: qless recur put QUEUE KLASS [DATA] [flags]",
	} {
		r := at(nowhere, strings.Fields(words)...)
		require.Equal(t, run{2, "", "qless: " + want + "\n"}, r, words)
	}
}

func TestOptionsAreCalledByTheirFlags(t *testing.T) {
	server := qlesstest.New(t)
	url := "redis://" + server.Addr()
	for words, want := range map[string]string{
		"limit set shop --rate 10":                            "--rate needs --per, the time in which so many jobs may start",
		"limit set shop --concurrency 0":                      "a limit needs --concurrency or --rate; qless limit unset shop removes it",
		"limit set shop --concurrency -3":                     "limit.set: the concurrency -3 is not from 0 to 2147483647",
		"job put mail K --delay 1m --at 2026-01-01T00:00:00Z": "the options --delay and --at can't be used together",
		"job put mail K --ttl 1us":                            "--ttl 1µs is less than 1ms",
		"job put mail K --on-lost Delay":                      `on_lost "Delay" is none of first, last, place`,
		"job put mail K --must-exist":                         "--must-exist has no jobs",
	} {
		r := at(url, strings.Fields(words)...)
		require.Equal(t, 2, r.status, words)
		require.Contains(t, r.errors, want+"\n", words)
	}
	r := at(url, "job", "put", "mail", "K", "--delay", "10", "--jid", "later")
	require.Equal(t, 0, r.status, r.errors)
	require.Equal(t, 0, at(url, "limit", "hold", "shop", "10", "--yes", "--timeout", "10").status)
}

// ofGo matches words of Go and of its libraries.
var ofGo = regexp.MustCompile(`\b(?:nil|struct|goroutines?|unmarshal|strconv|stringArray|json:|time: [a-z]+ duration|` +
	`parsing time|Go value|context deadline)|%!|\b[A-Z]\w+\.[A-Z]\w+`)

// exported returns the names in package qless that are not also English words.
func exported(t *testing.T) map[string]bool {
	t.Helper()
	files := must(filepath.Glob("../../../../*.go"))(t)
	names, compound := map[string]bool{}, regexp.MustCompile(`^[A-Z][a-z]+[A-Z]`)
	for _, file := range files {
		parsed := must(parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution))(t)
		ast.Inspect(parsed, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok && compound.MatchString(id.Name) {
				names[id.Name] = true
			}
			return true
		})
	}
	require.True(t, names["DependsOn"])
	return names
}

// requirePlain checks that a text contains no Go names.
func requirePlain(t *testing.T, names map[string]bool, text string, where ...any) {
	t.Helper()
	for _, found := range ofGo.FindAllString(text, -1) {
		t.Errorf("%v: %q in %s", where, found, text)
	}
	for _, word := range regexp.MustCompile(`\w+`).FindAllString(text, -1) {
		if names[word] {
			t.Errorf("%v: %q in %s", where, word, text)
		}
	}
}

func TestHelpHasNoNamesOfGo(t *testing.T) {
	names := exported(t)
	for _, command := range cli.All(cli.Root()) {
		help := command.Short + "\n" + command.Long + "\n" + command.UsageString()
		requirePlain(t, names, help, command.CommandPath())
	}
}

func TestErrorsOfFlagsHaveNoNamesOfGo(t *testing.T) {
	names, checked := exported(t), 0
	server := qlesstest.New(t)
	scene(t, server.Client())
	for _, command := range leaves(cli.Root()) {
		path := strings.TrimPrefix(command.CommandPath(), "qless ")
		words, found := asJSON[path]
		url := "redis://" + server.Addr()
		if noun, _, _ := strings.Cut(path, " "); !found || noun == "bench" || noun == "context" || path == "queue wait" {
			url = nowhere // would not end, or would change files
		}
		command.LocalFlags().VisitAll(func(flag *pflag.Flag) {
			if flag.Name == "help" || flag.Name == "watch" || flag.Value.Type() == "bool" {
				return
			}
			for _, value := range []string{"", "-7", "x y", "99999999999999999999", "1ns"} {
				r := at(url, append(strings.Fields(path+" "+words), "--"+flag.Name+"="+value)...)
				if r.status != 0 {
					checked++
				}
				requirePlain(t, names, r.errors, path, flag.Name, value)
			}
		})
	}
	require.Greater(t, checked, 300)
}
