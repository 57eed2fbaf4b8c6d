package slots

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// asks checks the answer of Ask.
func (t *Table) asks(tt *testing.T, room int, few bool, leaveOut ...string) {
	tt.Helper()
	gotRoom, gotOut, gotFew := t.Ask()
	require.Equal(tt, room, gotRoom)
	require.Equal(tt, leaveOut, gotOut)
	require.Equal(tt, few, gotFew)
}

func TestACrowdedQueueIsAskedForWhatHasRoom(t *testing.T) {
	table, some, other := New(10), &Kind{Most: 2}, &Kind{}
	table.asks(t, 10, false)
	table.Take(some)
	table.Take(some)
	table.Take(nil)
	table.Take(other)
	require.Zero(t, table.Room(some))
	require.Positive(t, table.Room(other))
	require.Positive(t, table.Room(nil))
	table.HandBack("q", some)
	table.asks(t, 6, false, "q")
	table.Answered(slices.Values([]Job{{"other", other}}), true)
	table.asks(t, 6, false, "q")

	table.Give(some)
	table.asks(t, 1, true)
	table.Answered(slices.Values([]Job{{"q", some}}), true)
	table.asks(t, 1, true) // as crowded as before
	table.Take(some)
	table.asks(t, 6, false, "q")
}

func TestAQueueIsNoLongerCrowded(t *testing.T) {
	some := &Kind{Most: 2}
	for name, answer := range map[string][]Job{
		"no job": nil, "another kind": {{"q", some}, {"q", nil}}, "another queue": {{"p", some}},
	} {
		table := New(10)
		table.HandBack("q", some)
		table.asks(t, 2, true)
		table.Answered(slices.Values(answer), len(answer) > 0)
		table.asks(t, 10, false)
		require.Empty(t, table.crowded, name)
	}
}

// waiting is a pool with some jobs.
type waiting struct{ len, room int }

func (w waiting) Len() int  { return w.len }
func (w waiting) Room() int { return w.room }

// The slot of the call with waiting jobs is not free for another job.
func TestJobsThatWaitForTheirCallHaveASlot(t *testing.T) {
	table, pooled := New(2), &Kind{}
	table.Gather(pooled, waiting{98, 2})
	table.asks(t, 1+2, false)
	table.Take(nil)
	table.asks(t, 2, false)
	table.Take(nil)
	table.asks(t, 0, false)
	empty := New(2)
	empty.Gather(pooled, waiting{0, 100})
	empty.asks(t, 2, false)
}
