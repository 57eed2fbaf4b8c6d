package line

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

// newLine returns a line of texts, and its number of changes.
func newLine() (*Line[string], *int) {
	changes := new(int)
	return New[string](func() { *changes++ }), changes
}

// requireAnswer requires that a call was answered.
func requireAnswer(t *testing.T, call *Call[string], want []string, wantErr error) {
	t.Helper()
	select {
	case <-call.Done():
	default:
		require.Fail(t, "the call waits")
	}
	items, err := call.Answer()
	require.Equal(t, want, items)
	require.Equal(t, wantErr, err)
}

func requireWaits(t *testing.T, call *Call[string]) {
	t.Helper()
	select {
	case <-call.Done():
		require.Fail(t, "the call was answered")
	default:
	}
}

func TestTheOldestCallGetsTheItems(t *testing.T) {
	l, changes := newLine()
	first, second, third := l.Join(2, false), l.Join(1, false), l.Join(5, false)
	require.Equal(t, 8, l.Ask())
	require.Empty(t, l.Deliver([]string{"a", "b", "c"}))
	requireAnswer(t, first, []string{"a", "b"}, nil)
	requireAnswer(t, second, []string{"c"}, nil)
	requireWaits(t, third)
	require.Equal(t, []string{"i", "j"}, l.Deliver([]string{"d", "e", "f", "g", "h", "i", "j"}))
	requireAnswer(t, third, []string{"d", "e", "f", "g", "h"}, nil)
	require.Zero(t, l.Wanted())
	require.Equal(t, 1, *changes, "nobody waits any more")
}

func TestItemsThatAreGivenBackGoToTheNext(t *testing.T) {
	l, changes := newLine()
	first := l.Join(1, false)
	require.Empty(t, l.Deliver([]string{"a"}))
	require.Zero(t, l.Wanted())
	require.True(t, l.IsNeeded(), "it may give the item back")
	require.False(t, l.Withdraw(first), "it was answered")
	second := l.Join(1, false)
	items, _ := first.Answer()
	require.Empty(t, l.Deliver(items))
	l.Took(first)
	requireAnswer(t, second, []string{"a"}, nil)
	require.True(t, l.IsNeeded())
	before := *changes
	l.Took(second)
	require.False(t, l.IsNeeded())
	require.Equal(t, before+1, *changes)
}

func TestACallThatIsWithdrawnGetsNothing(t *testing.T) {
	l, changes := newLine()
	first, second := l.Join(1, false), l.Join(1, false)
	require.True(t, l.Withdraw(first))
	require.False(t, l.Withdraw(first))
	require.Zero(t, *changes)
	require.Empty(t, l.Deliver([]string{"a"}))
	requireWaits(t, first)
	requireAnswer(t, second, []string{"a"}, nil)
}

func TestCallsThatTakeWhatThereIs(t *testing.T) {
	l, _ := newLine()
	patient, asked := l.Join(1, false), l.Join(1, true)
	require.Equal(t, 2, l.Ask())
	late := l.Join(1, true)
	l.NoMore()
	requireAnswer(t, asked, nil, nil)
	requireWaits(t, late)
	away := errors.New("away")
	l.Fail(away, true)
	requireAnswer(t, late, nil, away)
	requireWaits(t, patient)
	l.Fail(away, false)
	requireAnswer(t, patient, nil, away)
	l.Took(patient)
	require.False(t, l.IsNeeded())
}
