package qless

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The answer to a renewal and an event come by different connections. An event that overtakes the
// answer is about what happened since.
func TestSuspicionOutlivesAnEarlierRenewal(t *testing.T) {
	var lost []lostLock
	k := newLockKeeper(nil, nil, func(l lostLock) { lost = append(lost, l) })
	a := &activeJob{jid: "j"}
	a.lock.extend(time.Now(), time.Hour)
	_, ok := k.track(a)
	require.True(t, ok)
	isDue := func() bool {
		due, _ := k.dueLocks()
		return len(due) == 1
	}
	for name, suspect := range map[string]func(){
		"of one job":   func() { k.suspect("j", ErrCanceled) },
		"of every job": k.suspectAll,
	} {
		asked := time.Now()
		suspect()
		k.renewed([]*activeJob{a}, []string{"3600"}, asked)
		require.True(t, isDue(), name)
		k.renewed([]*activeJob{a}, []string{"3600"}, time.Now())
		require.False(t, isDue(), name)
	}
	asked := time.Now()
	k.suspect("j", ErrCanceled)
	k.renewed([]*activeJob{a}, []string{"3600"}, asked)
	k.renewed([]*activeJob{a}, []string{"!LockLost j is not locked"}, time.Now())
	require.Len(t, lost, 1)
	require.ErrorIs(t, lost[0].cause, ErrCanceled)
}
