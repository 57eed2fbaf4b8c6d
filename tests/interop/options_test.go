//go:build interop

package interop

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/testkit"
)

func TestOthersLeaveTheOptionsOfAJob(t *testing.T) {
	withOthers(t, func(t *testing.T, server *testkit.Server, them side) {
		client, err := qless.New(server.Client(t), nil)
		require.NoError(t, err)
		headers := map[string]string{"traceparent": "00-1"}
		_, err = client.Queue("q").Put(t.Context(), "K", nil, qless.JID("j"), qless.Headers(headers))
		require.NoError(t, err)

		must(t, them, "begin", args{"worker": "theirs"})
		for _, d := range []action{
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
			require.Equal(t, qless.Headers(headers), job.Headers, d.op)
		}
		must(t, them, "cancel", args{"jid": "j"})
		_, err = client.Job(t.Context(), "j")
		require.ErrorIs(t, err, qless.ErrNotFound)
	})
}

func TestJobsOfOthersAreFoundByAPutThatNeedsThemAbsent(t *testing.T) {
	withOthers(t, func(t *testing.T, server *testkit.Server, them side) {
		client, err := qless.New(server.Client(t), nil)
		require.NoError(t, err)
		put := func(option qless.If) error {
			_, err := client.Queue("q").Put(t.Context(), "K", nil, qless.JID("j"), option)
			return err
		}
		must(t, them, "begin", args{"worker": "theirs"})
		must(t, them, "put", args{"queue": "q", "jid": "j"})
		require.ErrorIs(t, put(qless.IfAbsent), qless.ErrExists)
		must(t, them, "pop", args{"queue": "q"})
		require.ErrorIs(t, put(qless.IfNotRunning), qless.ErrExists)
		must(t, them, "complete", args{"jid": "j"})
		require.ErrorIs(t, put(qless.IfAbsent), qless.ErrExists)
		require.NoError(t, put(qless.IfFinished))
	})
}

// A job that follows one run by the others is released when they complete that one. If they fail
// it, a later put replaces the waiting job.
func TestAJobThatFollowsOneThatOthersRun(t *testing.T) {
	withOthers(t, func(t *testing.T, server *testkit.Server, them side) {
		client, err := qless.New(server.Client(t), nil)
		require.NoError(t, err)
		queue := client.Queue("q")
		trigger := func(data int) *qless.Job {
			jid, err := queue.Put(t.Context(), "K", data, qless.Unique("k").Replace())
			require.NoError(t, err)
			job, err := client.Job(t.Context(), jid)
			require.NoError(t, err)
			return job
		}
		must(t, them, "begin", args{"worker": "theirs"})
		first := trigger(1)
		must(t, them, "pop", args{"queue": "q"})
		second := trigger(2)
		require.Equal(t, qless.StateDepends, second.State)
		must(t, them, "complete", args{"jid": first.JID})
		require.NoError(t, second.Refresh(t.Context()))
		require.Equal(t, qless.StateWaiting, second.State)

		must(t, them, "pop", args{"queue": "q"})
		third := trigger(3)
		must(t, them, "fail", args{"jid": second.JID, "group": "g", "message": "m"})
		again := trigger(4)
		require.Equal(t, third.JID, again.JID)
		require.Equal(t, "4", string(again.Data))
	})
}

// If an action of other clients ends a called job, the call ends, too.
func TestACallOfAJobThatOthersEnd(t *testing.T) {
	withOthers(t, func(t *testing.T, server *testkit.Server, them side) {
		client, err := qless.New(server.Client(t), nil)
		require.NoError(t, err)
		defer client.Close()
		must(t, them, "begin", args{"worker": "theirs"})
		type answer struct {
			result qless.Result
			err    error
		}
		call := func() chan answer {
			answers := make(chan answer, 1)
			go func() {
				result, err := client.Queue("q").Call(t.Context(), "K", nil, qless.JID("j"))
				answers <- answer{result, err}
			}()
			require.Eventually(t, func() bool {
				counts, err := client.Queue("q").Counts(t.Context())
				return err == nil && counts.Waiting == 1
			}, testkit.Patience, time.Millisecond)
			return answers
		}
		for _, end := range []action{
			{"complete", args{"jid": "j"}},
			{"fail", args{"jid": "j", "group": "g", "message": "m"}},
			{"cancel", args{"jid": "j"}},
		} {
			answers := call()
			must(t, them, "pop", args{"queue": "q"})
			must(t, them, end.op, end.args)
			select {
			case got := <-answers:
				require.Equal(t, end.op == "cancel", errors.Is(got.err, qless.ErrCanceled), got.err)
				require.Equal(t, end.op == "fail", got.result.Failure != nil)
			case <-time.After(testkit.Patience):
				require.FailNow(t, "the call continues")
			}
		}
	})
}
