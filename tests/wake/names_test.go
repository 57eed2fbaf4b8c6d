package wake

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/testkit"
)

// Names that would join to the same text are still names of two lists: a worker of one waits for
// jobs of its own queues.
func TestQueuesWithOddNamesAreListsOfTheirOwn(t *testing.T) {
	for _, more := range []int{0, 20} {
		t.Run(fmt.Sprint(more, " more"), func(t *testing.T) {
			e := newEnv(t, testkit.Start(t), "ql:")
			first, second := many(more+1), many(more+1)
			e.worker(qless.WorkerConfig{Queues: append([]string{"a", "b\x00c"}, first...)})
			e.worker(qless.WorkerConfig{Queues: append([]string{"a\x00b", "c"}, second...)})
			e.put("c", "j")
			e.runs("j")
			e.put("b\x00c", "k")
			e.runs("k")
		})
	}
}

// Workers with different queues never read each other's notes about them.
func TestWorkersOfOtherQueuesShareNoNotes(t *testing.T) {
	e := newEnv(t, testkit.Start(t), "ql:")
	ctx := t.Context()
	lists := [][]string{
		{"a", "b\x00c"}, {"a\x00b", "c"}, {"a", "b", "c"}, {"a\x00b\x00c"}, {`["a","b","c"]`}, {`a","b`, "c"},
	}
	for i, queues := range lists {
		for _, polls := range []string{"0", "1"} {
			e.reserveAs(fmt.Sprint("w", i), "1", polls, queues...)
		}
	}
	require.Len(t, e.Redis.Keys(ctx, "ql:x:looked:*").Val(), len(lists))
	require.EqualValues(t, 4, e.Redis.HLen(ctx, "ql:x:empty").Val(), "one for each list of several")
}

// An entry that begins with the byte 1 is a list of queues, so no worker has such a name.
func TestAWorkerCannotHaveTheNameOfAList(t *testing.T) {
	e := newEnv(t, testkit.Start(t), "ql:")
	_, err := e.Client.Do(t.Context(), "reserve", "\x01w", 1, 10, 0, "q")
	require.ErrorIs(t, err, qless.ErrInvalid)
	require.Empty(t, e.Redis.Keys(t.Context(), "ql:x:idle*").Val())
}
