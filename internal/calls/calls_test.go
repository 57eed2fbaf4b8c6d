package calls_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/internal/calls"
)

// A word with a meaning elsewhere may be the name of a queue.
func TestCallsOfManyJobsAreDescribedAsOne(t *testing.T) {
	for name, test := range map[string]struct {
		command string
		args    []any
		want    calls.Subject
	}{
		"one outcome": {"finish",
			[]any{"w", "retry", "j", "q", "", 2, "delay", 5},
			calls.Subject{Queue: "q", JID: "j", Count: 1}},
		"two outcomes": {"finish",
			[]any{"w", "retry", "j", "q", "", 2, "delay", 5, "complete", "k", "q", "", 0},
			calls.Subject{Queue: "q", Count: 2}},
		"completions and an outcome in another queue": {"finish",
			[]any{"w", "completed", "q", 2, "a", "b", "fail", "j", "r", "", 0},
			calls.Subject{Count: 3}},
		"one completion": {"finish",
			[]any{"w", "completed", "q", 1, "a"},
			calls.Subject{Queue: "q", JID: "a", Count: 1}},
		"puts": {"put.many",
			[]any{"w", "", "q", "a", "K", "{}", 0, 2, "priority", 1, "q", "b", "L", "{}", 0, 0},
			calls.Subject{Queue: "q", Count: 2}},
		"puts into a queue called completed": {"put.many",
			[]any{"w", "", "completed", "a", "K", "{}", 0, 0, "completed", "b", "K", "{}", 0, 0},
			calls.Subject{Queue: "completed", Klass: "K", Count: 2}},
		"puts that share their options": {"put.many",
			[]any{"w", "", "", "q", "K", 0, 2, "priority", 1, "a", "{}", "b", "{}"},
			calls.Subject{Queue: "q", Klass: "K", Count: 2}},
	} {
		require.Equal(t, test.want, calls.Describe(test.command, "", test.args, nil), name)
	}
}
