package conformance

import (
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/internal/testkit"
)

// Miniredis returns the same as Redis in every step of every trace. The traces alternate between
// the two ways to run commands, which share their code: with the race detector, miniredis is slow.
func TestMiniredis(t *testing.T) {
	t.Parallel()
	var halves [2][]trace
	for i, tr := range readTraces(t) {
		halves[i%2] = append(halves[i%2], tr)
	}
	t.Run("drop-in", func(t *testing.T) {
		t.Parallel()
		newTarget(t, miniredis.RunT(t).Addr(), "ql:", dropIn).replayAll(t, halves[0])
	})
	t.Run("commands", func(t *testing.T) {
		t.Parallel()
		newTarget(t, miniredis.RunT(t).Addr(), "ql:", scripts).replayAll(t, halves[1])
	})
}

// A knownDifference is a difference between miniredis and Redis, shown by the last of some
// commands.
type knownDifference struct {
	why      string
	commands [][]string
}

// put returns the command that puts a job j into the queue q, with some data and options.
func put(data string, options ...string) []string {
	return append([]string{"put", "1700000000", "w", "q", "j", "K", data, "0"}, options...)
}

var nested = strings.Repeat("[", 2000) + strings.Repeat("]", 2000)

// knownDifferences lists the known differences. None occurs in the traces.
var knownDifferences = map[string]knownDifference{
	"exponents": {
		why:      "its tonumber does not know exponents, and takes 1e1 for no number",
		commands: [][]string{put("{}"), {"priority", "1700000001", "j", "1e1"}},
	},
	"deep nesting": {
		why:      "its cjson.decode has no limit of depth, where Redis stops at 1000",
		commands: [][]string{put(nested)},
	},
	"null in arrays": {
		why:      "its cjson.decode makes nil of null, so an array ends before it, where Redis has a value",
		commands: [][]string{put("{}", "tags", "[null]")},
	},
	"arrays with names": {
		why:      "its cjson.encode refuses a table that has both numbers and names, where Redis makes an object of it",
		commands: [][]string{put("{}"), {"log", "1700000001", "j", "note", "[1]"}, {"get", "1700000002", "j"}},
	},
}

// A difference that no longer exists must be removed from the list.
func TestDifferencesOfMiniredis(t *testing.T) {
	t.Parallel()
	mini := newTarget(t, miniredis.RunT(t).Addr(), "ql:", dropIn)
	redis := newTarget(t, testkit.Start(t).Addr(), "ql:", dropIn)
	for name, known := range knownDifferences {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, mini.client.FlushDB(t.Context()).Err())
			require.NoError(t, redis.client.FlushDB(t.Context()).Err())
			var theirs, ours outcome
			for _, command := range known.commands {
				var err error
				theirs, err = mini.run(t.Context(), command)
				require.NoError(t, err)
				ours, err = redis.run(t.Context(), command)
				require.NoError(t, err)
			}
			alike := theirs.Area == ours.Area && same(theirs.Reply, ours.Reply)
			assert.False(t, alike, "it is no longer true that %s: both return %v", known.why, ours)
		})
	}
}
