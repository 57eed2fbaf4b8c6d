package cli_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/internal/testkit"
)

// destructive are the commands that need confirmation, with arguments for the scene.
var destructive = []string{
	"queue pause mail",
	"queue forget old",
	"queue move mail slow",
	"job cancel failed running",
	"job unfail failed failed-too",
	"job move waiting --to slow",
	"job timeout running",
	"job undepend child --all",
	"job edit waiting --data 1",
	"failed unfail timeout",
	"failed cancel timeout",
	"recur cancel hourly",
	"schedule forget nightly",
	"worker forget test-worker",
	"limit unset shop",
	"limit hold shop 1m",
}

// harmless are the commands for changes without a question.
var harmless = []string{
	"queue resume sms",
	"job put mail Welcome",
	"job unfail failed",
	"job promote later",
	"job priority waiting --to 3",
	"job tag waiting --tag x",
	"job untag waiting --tag urgent",
	"job track later",
	"job untrack waiting",
	"job depend child --on running",
	"job undepend child --on waiting",
	"job log waiting -m hello",
	"recur put reports Daily --every 24h",
	"recur set hourly --every 2h",
	"recur run hourly",
	"schedule run nightly",
	"limit set shop --concurrency 3",
	"limit hold shop 0",
}

// busy returns an env with the scene for a command, and a function to read all keys of the env.
func busy(t *testing.T, words string) (*env, func() testkit.Keyspace) {
	e := newStill(t)
	scene(t, e.Client())
	require.NoError(t, e.Client().Limit("shop").Hold(t.Context(), time.Minute))
	jid, err := e.Client().Queue("old").Put(t.Context(), "K", nil)
	require.NoError(t, err)
	require.NoError(t, e.Client().Cancel(t.Context(), jid)) // which leaves a queue without jobs
	if strings.HasPrefix(words, "schedule") {
		follow(t, e.Client())()
	}
	return e, func() testkit.Keyspace { return testkit.Dump(t, e.Redis(), "*") }
}

func TestWhatDestroysHasToBeConfirmed(t *testing.T) {
	for _, words := range destructive {
		t.Run(words, func(t *testing.T) {
			t.Parallel()
			e, keys := busy(t, words)
			before := keys()
			r := e.run("y\n", strings.Fields(words)...)
			require.Equal(t, 2, r.status, r.errors)
			require.Contains(t, r.errors, "--yes")
			require.Equal(t, before, keys(), "without --yes")
			r = e.fields(words + " --dry-run --yes")
			require.Equal(t, 0, r.status, r.errors)
			require.Contains(t, r.errors, "would ")
			require.Equal(t, before, keys(), "with --dry-run")
			r = e.fields(words + " --yes")
			require.Equal(t, 0, r.status, r.errors)
			require.NotEqual(t, before, keys(), "with --yes")
		})
	}
}

func TestADryRunChangesNothing(t *testing.T) {
	for _, words := range harmless {
		t.Run(words, func(t *testing.T) {
			t.Parallel()
			e, keys := busy(t, words)
			before := keys()
			r := e.fields(words + " --dry-run")
			require.Equal(t, 0, r.status, r.errors)
			require.Contains(t, r.errors, "would ")
			require.Equal(t, before, keys())
			r = e.fields(words)
			require.Equal(t, 0, r.status, r.errors)
			require.NotEqual(t, before, keys())
		})
	}
}
