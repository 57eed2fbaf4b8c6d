package worker

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
)

func TestLocksWithATimeOfTheirOwnAreRenewedInTime(t *testing.T) {
	t.Parallel()
	e := newLiveEnv(t)
	e.Put("q", qless.JID("short"), qless.LockTime(6*time.Second))
	w, plain, end, causes := e.holding(qless.WorkerConfig{})
	until(t, "both run", func() bool { return len(w.Stats().Running) == 2 })
	expires := e.Read("short").Expires
	require.Equal(t, []string{"short"}, w.await(t, "a renewal", 2, of("renew")).args[1:])
	require.Greater(t, e.Read("short").Expires.Sub(expires), time.Second)
	end <- nil
	end <- nil
	require.Equal(t, reported{"complete", "complete"}, w.outcome("short"))
	require.Equal(t, reported{"complete", "complete"}, w.outcome(plain))
	require.Empty(t, causes)
	require.Equal(t, []string{"put", "popped", "done"}, whats(e.Read("short").History))
}

// Of two locks that end at different times, the longer one is not renewed whenever the shorter one
// is.
func TestALongLockTimeIsRenewedSeldom(t *testing.T) {
	t.Parallel()
	e := newLiveEnv(t)
	e.Set("heartbeat", "6")
	e.Put("q", qless.JID("long"), qless.LockTime(time.Hour))
	w, plain, end, _ := e.holding(qless.WorkerConfig{})
	until(t, "both run", func() bool { return len(w.Stats().Running) == 2 })
	require.Greater(t, time.Until(e.Read("long").Expires), 50*time.Minute)
	require.Equal(t, []string{plain}, w.await(t, "a renewal", 2, of("renew")).args[1:])
	end <- nil
	end <- nil
	require.Equal(t, reported{"complete", "complete"}, w.outcome("long"))
}
