//go:build interop

package interop

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/testkit"
)

func TestOthersLeaveTheOptionsOfAJob(t *testing.T) {
	withOthers(t, func(t *testing.T, server *testkit.Server, them side) {
		client, err := qless.New(server.Client(t))
		require.NoError(t, err)
		headers := map[string]string{"traceparent": "00-1"}
		_, err = client.Queue("q").Put(t.Context(), "K", nil, qless.JID("j"), qless.Headers(headers))
		require.NoError(t, err)

		must(t, them, "begin", args{"worker": "theirs"})
		for _, d := range []deed{
			{"pop", args{"queue": "q"}},
			{"heartbeat", args{"jid": "j"}},
			{"retry", args{"jid": "j"}},
			{"pop", args{"queue": "q"}},
			{"complete", args{"jid": "j", "next": "q2"}},
			{"pop", args{"queue": "q2"}},
			{"fail", args{"jid": "j", "group": "g", "message": "m"}},
			{"unfail", args{"queue": "q2", "group": "g"}},
			{"move", args{"jid": "j", "queue": "q"}},
			{"pop", args{"queue": "q"}},
			{"complete", args{"jid": "j"}},
			{"put", args{"queue": "q", "jid": "j"}},
		} {
			must(t, them, d.op, d.args)
			job, err := client.Job(t.Context(), "j")
			require.NoError(t, err)
			require.Equal(t, headers, job.Headers, d.op)
		}
		must(t, them, "cancel", args{"jid": "j"})
		_, err = client.Job(t.Context(), "j")
		require.ErrorIs(t, err, qless.ErrNotFound)
	})
}

func TestJobsOfOthersAreFoundByAPutThatNeedsThemAbsent(t *testing.T) {
	withOthers(t, func(t *testing.T, server *testkit.Server, them side) {
		client, err := qless.New(server.Client(t))
		require.NoError(t, err)
		put := func(option qless.ConflictOption) error {
			_, err := client.Queue("q").Put(t.Context(), "K", nil, qless.JID("j"), option)
			return err
		}
		must(t, them, "begin", args{"worker": "theirs"})
		must(t, them, "put", args{"queue": "q", "jid": "j"})
		require.ErrorIs(t, put(qless.IfAbsent()), qless.ErrExists)
		must(t, them, "pop", args{"queue": "q"})
		require.ErrorIs(t, put(qless.IfNotRunning()), qless.ErrExists)
		must(t, them, "complete", args{"jid": "j"})
		require.ErrorIs(t, put(qless.IfAbsent()), qless.ErrExists)
		require.NoError(t, put(qless.IfFinished()))
	})
}
