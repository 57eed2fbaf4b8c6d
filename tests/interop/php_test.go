//go:build interop

package interop

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/internal/testkit"
)

// PHP takes one of our jobs by its jid, once.
func TestPHPTakesAJobByItsID(t *testing.T) {
	server := testkit.Start(t)
	us, them := &ours{rdb: server.Client(t)}, startPHP(t, server)
	must(t, us, "begin", args{"worker": "ours"})
	must(t, them, "begin", args{"worker": "theirs"})
	must(t, us, "put", args{"queue": "q", "jid": "first"})
	must(t, us, "put", args{"queue": "q", "jid": "chosen"})

	take := args{"queue": "q", "jid": "chosen"}
	popped := must(t, them, "pop_by_jid", take)
	require.True(t, within(decode(`[{"jid": "chosen", "state": "running", "worker": "theirs"}]`), popped), popped)
	require.Empty(t, must(t, them, "pop_by_jid", take))
	require.Equal(t, "complete", must(t, them, "complete", args{"jid": "chosen"}))
	popped = must(t, us, "pop", args{"queue": "q", "count": 2.0})
	require.True(t, within(decode(`[{"jid": "first"}]`), popped), popped)
}

// Our worker respects the backoff put by PHP.
func TestOurWorkerKeepsToABackoffOfPHP(t *testing.T) {
	server := testkit.Start(t)
	us, them := &ours{rdb: server.Client(t)}, startPHP(t, server)
	must(t, us, "begin", args{"worker": "ours"})
	must(t, them, "begin", args{"worker": "theirs"})
	must(t, us, "set", args{"option": "grace-period", "value": 0})
	must(t, us, "set", args{"option": "q-heartbeat", "value": 1})
	backoff := map[string]any{"initial_delay": 1800, "factor": 2}
	must(t, them, "put_backoff", args{"queue": "q", "jid": "j", "backoff": backoff})
	must(t, them, "pop", args{"queue": "q"})

	ran := idleWorker(t, us.rdb, time.Hour)
	require.NoError(t, until(func() error {
		return step{wants: true, want: decode(`{"state": "scheduled", "remaining": 4, "worker": "theirs"}`)}.
			check(must(t, them, "job", args{"jid": "j"}), nil)
	}))
	require.Empty(t, ran)
}
