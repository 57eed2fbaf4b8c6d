package leases

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The answer to a renewal and an event arrive on different connections. An event that overtakes the
// answer is about a later loss.
func TestSuspicionOutlivesAnEarlierRenewal(t *testing.T) {
	errCanceled, errLost := errors.New("canceled"), errors.New("lost")
	var lost []string
	k := NewKeeper(Config[string]{
		Cause: func(error) error { return errLost },
		Lost:  func(holder string) { lost = append(lost, holder) },
	})
	l := &Lease[string]{ID: "j", Holder: "h"}
	l.Extend(time.Now(), time.Hour)
	_, ok := k.Track(l)
	require.True(t, ok)
	isDue := func() bool {
		due, _ := k.dueLeases()
		return len(due) == 1
	}
	answer := func(renewal Renewal, asked time.Time) {
		k.renewed([]*Lease[string]{l}, []Renewal{renewal}, asked)
	}
	hour := Renewal{Lasts: time.Hour}
	for name, suspect := range map[string]func(){
		"of one lease":   func() { k.Suspect("j", errCanceled) },
		"of every lease": k.SuspectAll,
	} {
		asked := time.Now()
		suspect()
		answer(hour, asked)
		require.True(t, isDue(), name)
		answer(hour, time.Now())
		require.False(t, isDue(), name)
	}
	asked := time.Now()
	k.Suspect("j", errCanceled)
	answer(hour, asked)
	answer(Renewal{Problem: errLost}, time.Now())
	require.Equal(t, []string{"h"}, lost)
	require.ErrorIs(t, l.Cause, errCanceled)
}
