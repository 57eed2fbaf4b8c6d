package api

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
)

// rowsOf returns the jids that a selection's iterator yields.
func rowsOf(t testing.TB, s inspect.Selection) []string {
	t.Helper()
	all := []string{}
	for row, err := range s.Each(t.Context()) {
		require.NoError(t, err)
		all = append(all, row.JID)
	}
	return all
}

func TestFiltersAddUp(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		for i := range 6 {
			e.Put("q", qless.JID(fmt.Sprint("j", i)), qless.Tags{fmt.Sprint("even", i%2 == 0), fmt.Sprint("third", i%3 == 0)})
		}
		both := e.inQueue(inspect.Waiting).Where(inspect.Filter{Tag: "eventrue"}).Where(inspect.Filter{Tag: "thirdtrue"})
		require.Equal(t, []string{"j0"}, rowsOf(t, both))
		require.Equal(t, 1, must(both.Count(t.Context()))(t))
		named := e.inspect().JIDs("j4", "gone", "j1", "j0", "j4").Where(inspect.Filter{Tag: "eventrue"})
		require.Equal(t, []string{"j4", "j0"}, rowsOf(t, named))
		require.Equal(t, inspect.Repair{Changed: 2}, must(named.Untag(t.Context(), "eventrue"))(t))
		require.Empty(t, rowsOf(t, named))
	})
}

func TestASelectionIsAValue(t *testing.T) {
	e := newEnv(t)
	for i := range 4 {
		e.Put("q", qless.JID(fmt.Sprint("j", i)), qless.Tags{fmt.Sprint("t", i)})
	}
	all := e.inQueue(inspect.Waiting)
	one, two := all.Where(inspect.Filter{Tag: "t1"}), all.Where(inspect.Filter{Tag: "t2"})
	require.Equal(t, []string{"j1"}, rowsOf(t, one))
	require.Equal(t, []string{"j2"}, rowsOf(t, two))
	require.Len(t, rowsOf(t, all), 4)
	require.Len(t, rowsOf(t, all.AtMost(3).AtMost(5)), 3)
	for _, s := range []inspect.Selection{all.AtMost(2), e.inspect().JIDs("j0", "j1", "j2").AtMost(2)} {
		require.Equal(t, 2, must(s.Count(t.Context()))(t))
		page := must(s.JIDs(t.Context(), inspect.Range{Offset: 1}))(t)
		require.Equal(t, inspect.Page[string]{Items: []string{"j1"}, Total: 2}, page)
		rows := must(s.List(t.Context(), inspect.Range{Offset: 1}))(t)
		require.Equal(t, []string{"j1"}, jidsOf(rows.Items))
	}
}

// Dependencies in a different step from their dependents are canceled after them.
func TestCancelTakesDependenciesLast(t *testing.T) {
	e := newEnv(t)
	const length = 600
	for i := range length {
		var options []qless.PutOption
		if i > 0 {
			options = append(options, qless.DependsOn{fmt.Sprintf("j%03d", i-1)})
		}
		e.Put("q", append(options, qless.JID(fmt.Sprintf("j%03d", i)), qless.Tags{"chain"})...)
	}
	e.Put("other", qless.JID("outside"), qless.DependsOn{"j100"})
	done := must(e.inspect().Tagged("chain").Cancel(t.Context()))(t)
	require.Equal(t, length-101, done.Changed)
	require.Equal(t, 101, done.Unchanged)
	require.ErrorIs(t, done.Reasons["j100"], qless.ErrHasDependents)
	require.NoError(t, e.Cancel(t.Context(), "outside"))
	done = must(e.inspect().Tagged("chain").AtMost(100).Cancel(t.Context()))(t)
	require.Equal(t, 100, done.Changed)
}

// Jobs that move to the end of the list being read are not visited again.
func TestJobsThatMoveWithinTheirListAreChangedOnce(t *testing.T) {
	e := newEnv(t)
	e.puts("q", specs(1000)...)
	moved := 0
	for job, err := range e.inQueue(inspect.Waiting).Jobs(t.Context()) {
		require.NoError(t, err)
		require.NoError(t, job.Move(t.Context(), "q", qless.Priority(-1)))
		moved++
	}
	require.Equal(t, 1000, moved)
	done := must(e.inQueue(inspect.Waiting).Move(t.Context(), "q", qless.Priority(-2)))(t)
	require.Equal(t, inspect.Repair{Changed: 1000}, done)
}

func TestARepairIsStopped(t *testing.T) {
	e := newEnv(t)
	e.puts("q", specs(1000)...)
	stop, steps := errors.New("enough"), 0
	s := e.inQueue(inspect.Waiting).OnStep(func(soFar inspect.Repair) error {
		if steps++; steps == 2 {
			require.Equal(t, 200, soFar.Changed)
			return stop
		}
		return nil
	})
	done, err := s.Tag(t.Context(), "red")
	require.ErrorIs(t, err, stop)
	require.Equal(t, 200, done.Changed)
	ctx, cancel := context.WithCancel(t.Context())
	done, err = e.inQueue(inspect.Waiting).OnStep(func(inspect.Repair) error { cancel(); return nil }).Tag(ctx, "red")
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, 100, done.Changed)
}

func TestApplyLeavesJobsThatCannotBeChanged(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		for _, jid := range []string{"a", "b", "c"} {
			e.Put("q", qless.JID(jid))
		}
		require.Equal(t, "a", e.Pop("q").JID)
		var steps []int
		s := e.inspect().JIDs("a", "b", "gone", "c").OnStep(func(soFar inspect.Repair) error {
			steps = append(steps, soFar.Changed+soFar.Unchanged)
			return nil
		})
		later := func(ctx context.Context, job *qless.Job) error { return job.Reschedule(ctx, time.Hour) }
		done := must(s.Apply(t.Context(), later))(t)
		require.Equal(t, 2, done.Changed)
		require.ErrorIs(t, done.Reasons["a"], qless.ErrRunning)
		require.Equal(t, []int{1, 2, 3}, steps)
		broken := errors.New("broken")
		_, err := s.Apply(t.Context(), func(context.Context, *qless.Job) error { return broken })
		require.ErrorIs(t, err, broken)
	})
}

func TestTimeoutOfASelection(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		for _, jid := range []string{"a", "b", "c"} {
			e.Put("q", qless.JID(jid))
		}
		e.Pops("q", 2)
		done := must(e.inspect().JIDs("a", "b", "c", "gone").Timeout(t.Context()))(t)
		require.Equal(t, 2, done.Changed)
		require.ErrorIs(t, done.Reasons["c"], qless.ErrNotRunning)
		require.ErrorIs(t, done.Reasons["gone"], qless.ErrNotFound)
		require.Equal(t, qless.StateTimedOut, e.Read("a").State)
		held := rowsOf(t, e.inspect().HeldBy("w1"))
		require.Empty(t, held)
		require.ElementsMatch(t, []string{"a", "b"}, jids(e.Pops("q", 2)))
		require.Equal(t, []string{"a", "b"}, slices.Sorted(slices.Values(rowsOf(t, e.inspect().HeldBy("w1")))))
	})
}
