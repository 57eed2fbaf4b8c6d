package api

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
)

// An ending holds the results of a wait.
type ending struct {
	result qless.Result
	err    error
}

// waits begins to wait for a job, and returns once the server knows.
func (e *env) waits(ctx context.Context, jid string) chan ending {
	e.T.Helper()
	e.T.Cleanup(func() { _ = e.Close() })
	ended := make(chan ending, 1)
	go func() {
		result, err := e.Wait(ctx, jid)
		ended <- ending{result, err}
	}()
	require.Eventually(e.T, func() bool {
		letters, _, _ := strings.Cut(e.stored(jid), "|")
		return strings.Contains(letters, "w") || len(ended) > 0
	}, patience, time.Millisecond)
	return ended
}

// soon returns the results of a wait.
func (e *env) soon(ended chan ending) ending {
	e.T.Helper()
	select {
	case end := <-ended:
		return end
	case <-time.After(patience):
		require.FailNow(e.T, "the wait continues")
		return ending{}
	}
}

func TestAWaitEndsWithItsJob(t *testing.T) {
	large := strings.Repeat("x", 100_000)
	for name, c := range map[string]struct {
		end   func(e *env) error
		state qless.State
		data  string
		err   error
	}{
		"complete":       {func(e *env) error { return e.popWith(7).Complete(e.T.Context()) }, qless.StateComplete, "7", nil},
		"a large result": {func(e *env) error { return e.popWith(large).Complete(e.T.Context()) }, qless.StateComplete, `"` + large + `"`, nil},
		"without a result": {func(e *env) error { return e.Pop("q").Complete(e.T.Context()) },
			qless.StateComplete, "", nil},
		"deleted at once": {func(e *env) error {
			e.Set("jobs-history", 0)
			return e.popWith(7).Complete(e.T.Context())
		}, qless.StateComplete, "7", nil},
		"failed": {func(e *env) error { return e.popWith(7).Fail(e.T.Context(), "g", "m") }, qless.StateFailed, "7", nil},
		"out of retries": {func(e *env) error { return errOf(e.Pop("q").Retry(e.T.Context(), 0, "", "")) },
			qless.StateFailed, "", nil},
		"canceled":  {func(e *env) error { return e.Cancel(e.T.Context(), "j") }, "", "", qless.ErrCanceled},
		"moves on":  {movesOn, qless.StateComplete, "8", nil},
		"lost once": {losesLock, qless.StateComplete, "8", nil},
	} {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(t *testing.T, e *env) {
				e.Put("q", qless.JID("j"), qless.Retries(0))
				ended := e.waits(t.Context(), "j")
				require.NoError(t, c.end(e))
				got := e.soon(ended)
				if c.err != nil {
					requireCode(t, c.err, got.err)
					return
				}
				require.NoError(t, got.err)
				require.Equal(t, c.state, got.result.State)
				require.Equal(t, c.data, string(got.result.Data))
				require.Equal(t, c.state == qless.StateFailed, got.result.Failure != nil)
			})
		})
	}
}

// movesOn moves the job j through further queues, with a release, and completes it.
func movesOn(e *env) error {
	ctx := e.T.Context()
	if err := e.Pop("q").Next(ctx, "q"); err != nil {
		return err
	}
	if err := e.Pop("q").Release(ctx, 0); err != nil {
		return err
	}
	return e.popWith(8).Complete(ctx)
}

// losesLock completes the job j after its first worker has lost it.
func losesLock(e *env) error {
	e.Put("q", qless.JID("j"), qless.Retries(3))
	e.Pop("q")
	for range 3 {
		e.Clock.Advance(time.Hour)
		if jobs := e.Pops("q", 1); len(jobs) > 0 {
			if err := jobs[0].SetResult(8); err != nil {
				return err
			}
			return jobs[0].Complete(e.T.Context())
		}
	}
	return fmt.Errorf("the job was not popped again")
}

func TestAWaitForAJobThatHasEndedReturnsAtOnce(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		defer e.Close()
		jid := e.Put("q")
		require.NoError(t, e.popWith(7).Complete(t.Context()))
		require.Equal(t, "7", string(must(e.Wait(t.Context(), jid))(t).Data))
		require.Empty(t, e.stored(jid))
		requireCode(t, qless.ErrNotFound, errOf(e.Wait(t.Context(), "unknown")))
		for _, bad := range []string{"", "j-history", "\xff"} {
			requireCode(t, qless.ErrInvalid, errOf(e.Wait(t.Context(), bad)))
			requireCode(t, qless.ErrInvalid, errOf(e.WaitAll(t.Context(), jid, bad)))
		}
	})
}

func TestAWaitEndsWithItsContext(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		ctx, cancel := context.WithCancel(t.Context())
		ended := e.waits(ctx, e.Put("q"))
		cancel()
		got := e.soon(ended)
		requireCode(t, qless.ErrUnavailable, got.err)
		require.ErrorIs(t, got.err, context.Canceled)
	})
}

func TestAWaitEndsWhenTheClientIsClosed(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		jid := e.Put("q")
		ended := e.waits(t.Context(), jid)
		require.NoError(t, e.Close())
		requireCode(t, qless.ErrUnavailable, e.soon(ended).err)
		requireCode(t, qless.ErrUnavailable, errOf(e.Wait(t.Context(), jid)))
		require.NoError(t, e.Close())
	})
}

func TestAllWaitersAreNotified(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		const jobs, each = 20, 3
		var ended []chan ending
		for i := range jobs {
			e.Put("q", qless.JID(fmt.Sprint("j", i)))
			for range each {
				ended = append(ended, e.waits(t.Context(), fmt.Sprint("j", i)))
			}
		}
		for range jobs {
			require.NoError(t, e.popWith("done").Complete(t.Context()))
		}
		for _, one := range ended {
			got := e.soon(one)
			require.NoError(t, got.err)
			require.Equal(t, `"done"`, string(got.result.Data))
		}
	})
}

func TestWaitAllReturnsTheResultsInOrder(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		defer e.Close()
		ctx := t.Context()
		var jids []string
		for i := range 10 {
			jids = append(jids, e.Put("q", qless.JID(fmt.Sprint("j", i))))
		}
		ended := make(chan error, 1)
		var results []qless.Result
		go func() {
			var err error
			results, err = e.WaitAll(ctx, jids...)
			ended <- err
		}()
		for range jids {
			job := e.Pop("q")
			require.NoError(t, job.SetResult(job.JID))
			require.NoError(t, job.Complete(ctx))
		}
		require.NoError(t, <-ended)
		for i, jid := range jids {
			require.Equal(t, `"`+jid+`"`, string(results[i].Data))
		}
		results, err := e.WaitAll(ctx, jids[0], "unknown", jids[1])
		requireCode(t, qless.ErrNotFound, err)
		require.Equal(t, `"j1"`, string(results[2].Data))
	})
}

// No message announces the end of a job that another client's script ended, or that ended while the
// connection was broken.
func TestAWaitAsksAgainWithoutANotification(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		jid := e.Put("q")
		ended := e.waits(t.Context(), jid)
		e.Pop("q")
		require.NoError(t, e.Redis.HSet(t.Context(), "ql:j:"+jid, "state", "complete").Err())
		got := e.soon(ended)
		require.NoError(t, got.err)
		require.Equal(t, qless.StateComplete, got.result.State)
		require.Nil(t, got.result.Data)

		jid = e.Put("q2")
		ended = e.waits(t.Context(), jid)
		require.NoError(t, e.Redis.Del(t.Context(), "ql:j:"+jid).Err())
		requireCode(t, qless.ErrCanceled, e.soon(ended).err)
	})
}

func TestWaitsOutliveTheirServer(t *testing.T) {
	e := newEnv(t)
	jid := e.Put("q")
	ended := e.waits(t.Context(), jid)
	e.Server.Restart()
	e.Put("q", qless.JID(jid)) // the server has forgotten it
	require.NoError(t, e.popWith(7).Complete(t.Context()))
	got := e.soon(ended)
	if got.err != nil { // the job has been gone for so long that it counts as deleted
		requireCode(t, qless.ErrCanceled, got.err)
		return
	}
	require.Equal(t, "7", string(got.result.Data))
}

func TestWaitsOfAClientShareAConnection(t *testing.T) {
	e := newEnv(t)
	for i := range 50 {
		e.Put("q", qless.JID(fmt.Sprint("j", i)))
		e.waits(t.Context(), fmt.Sprint("j", i))
	}
	subscribers := func() int {
		clients := e.Redis.ClientList(t.Context()).Val()
		return strings.Count(clients, " sub=") - strings.Count(clients, " sub=0 ")
	}
	require.Equal(t, 1, subscribers())
	require.NoError(t, e.Close())
	require.Eventually(t, func() bool { return subscribers() == 0 }, patience, time.Millisecond)
}

func TestAJobThatWasPutAgainIsNoLongerWaitedFor(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		jid := e.Put("q")
		ended := e.waits(t.Context(), jid)
		require.NoError(t, e.Pop("q").Complete(t.Context()))
		require.NoError(t, e.soon(ended).err)
		e.Put("q", qless.JID(jid))
		require.Empty(t, e.stored(jid))
	})
}
