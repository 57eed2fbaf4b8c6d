package cli_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/internal/testkit"
)

// changes returns the commands of asJSON that change the namespace, with or without confirmation.
func changes(confirmed bool) (all []string) {
	nouns := []string{"queue", "job", "failed", "recur", "schedule", "limit"}
	for path, words := range asJSON {
		noun, _, _ := strings.Cut(path, " ")
		args, isConfirmed := strings.CutSuffix(words, " --yes")
		switch {
		case readOnly(path) || path == "queue history":
		case path == "queue forget": // the queue has nothing to forget
		case slices.Contains(nouns, noun) && isConfirmed == confirmed:
			all = append(all, path+" "+args)
		}
	}
	return all
}

// busy returns an env with the scene for a command, and a function to read all keys of the env.
func busy(t *testing.T, words string) (*env, func() testkit.Keyspace) {
	e := newStill(t)
	scene(t, e.Client())
	require.NoError(t, e.Client().Limit("shop").Hold(t.Context(), time.Minute))
	jid := must(e.Client().Queue("old").Put(t.Context(), "K", nil))(t)
	require.NoError(t, e.Client().Cancel(t.Context(), jid)) // which leaves a queue without jobs
	if strings.HasPrefix(words, "schedule") {
		follow(t, e.Client())()
	}
	return e, func() testkit.Keyspace { return testkit.Dump(t, e.Redis(), "*") }
}

func TestWhatDestroysHasToBeConfirmed(t *testing.T) {
	more := []string{
		"queue forget old", "job unfail failed failed-too", "job undepend child --all",
		"worker forget test-worker",
	}
	for _, words := range append(changes(true), more...) {
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
	for _, words := range append(changes(false), "limit hold shop 0") {
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
