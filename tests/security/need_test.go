package security

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/luasrc"
	"github.com/qless/qless-go/internal/testkit"
)

const root = "../.."

// needsOf returns the commands needed by scripts, as named in rules.
func needsOf(t testing.TB, scripts ...string) []string {
	t.Helper()
	facts, err := luasrc.FactsOf(os.DirFS(filepath.Join(root, "lua")))
	require.NoError(t, err)
	var names []string
	for _, script := range scripts {
		require.Contains(t, facts, script)
		names = append(names, facts[script].Needs...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// forbidden matches commands with unbounded cost, or with effects beyond a namespace. HSCAN and
// SSCAN read part of a key.
var forbidden = regexp.MustCompile(`(?i)(call\(|pcall\(|NewCmd\(ctx, |\.Do\(ctx, )["'](keys|scan|zscan|flushall|` +
	`flushdb|swapdb|sort|randomkey|debug|config|shutdown|save|bgsave|monitor|eval)["']|` +
	`\.(Keys|Scan|ZScan|FlushAll|FlushDB|Sort|RandomKey|ConfigSet|Monitor)\(ctx`)

func TestNoSourceUsesAForbiddenCommand(t *testing.T) {
	require.Regexp(t, forbidden, `redis.call('keys', '*')`)
	require.Regexp(t, forbidden, `c.rdb.FlushAll(ctx)`)
	var looked int
	for _, pattern := range []string{"*.go", "lua/*.lua", "lua/commands/*.lua", "lua/lib/*.lua", "qlesstest/*.go"} {
		paths, err := filepath.Glob(filepath.Join(root, pattern))
		require.NoError(t, err)
		for _, path := range paths {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			require.NotRegexp(t, forbidden, string(text), path)
			looked++
		}
	}
	require.Greater(t, looked, 60)
}

// asked matches a question whether the user may run a command.
var asked = regexp.MustCompile(`may_run\('(\w+)', ([^()]*)\)`)

// Patched servers answer such a question with an error if the command lacks an argument.
func TestQuestionsAboutCommandsAreComplete(t *testing.T) {
	rdb := testkit.Start(t).Client(t)
	questions := asked.FindAllStringSubmatch(qless.DropInScript(), -1)
	require.NotEmpty(t, questions)
	require.Len(t, questions, strings.Count(qless.DropInScript(), "may_run("), "not all match")
	for _, question := range questions {
		known, err := rdb.Command(t.Context()).Result()
		require.NoError(t, err)
		command := known[question[1]]
		require.NotNil(t, command, question[0])
		words := 2 + strings.Count(question[2], ",")
		if command.Arity < 0 {
			require.GreaterOrEqual(t, words, -int(command.Arity), question[0])
		} else {
			require.EqualValues(t, command.Arity, words, question[0])
		}
	}
}
