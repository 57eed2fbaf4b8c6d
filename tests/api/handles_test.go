package api

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/internal/testkit"
	"github.com/qless/qless-go/tests/repairs"
)

func TestRetryByAHandleOfAnotherQueueIsRefused(t *testing.T) {
	e := newEnv(t)
	e.Put("q1", qless.JID("j"))
	e.Pop("q1")
	old := e.Read("j")
	require.NoError(t, e.Read("j").Move(t.Context(), "q2"))
	e.Pop("q2")
	e.Unchanged(func() {
		require.Equal(t, "retry", requireCode(t, qless.ErrWrongQueue, errOf(old.Retry(t.Context(), 0, "", ""))).Op)
		requireCode(t, qless.ErrWrongQueue, errOf(old.Retry(t.Context(), time.Second, "g", "m")))
		requireCode(t, qless.ErrWrongQueue, old.Release(t.Context(), 0))
		requireCode(t, qless.ErrWrongQueue, old.Complete(t.Context()))
	})
	require.Equal(t, "q2", e.Read("j").Queue)
}

// The command of other clients moves a job to any queue that they name.
func TestTheCommandRetryOfOtherClientsMovesTheJob(t *testing.T) {
	e := newEnv(t)
	e.Put("q1", qless.JID("j"))
	e.Pop("q1")
	require.NoError(t, errOf(e.Run(t.Context(), "retry", "j", "j", "q2", "w1")))
	require.Equal(t, "j", e.Pop("q2").JID)
}

func TestAnOutcomeNamesTheRunThatItIsOf(t *testing.T) {
	e := newEnv(t)
	for _, jid := range []string{"a", "b", "c", "d"} {
		e.Put("q", qless.JID(jid))
	}
	require.Len(t, e.Pops("q", 4), 4)
	since := must(e.Redis.HGet(t.Context(), "ql:j:a", "time").Result())(t)
	require.NoError(t, repairs.TimeOut(t.Context(), e.Client, "a", "b", "c", "d"))
	require.Len(t, e.Pops("q", 4), 4)
	finish := func(args ...any) string {
		reply := must(e.Run(t.Context(), "finish", "", append([]any{"w1"}, args...)...))(t)
		return reply.([]any)[0].(string)
	}
	const lost = " another worker: w1, at "
	e.Unchanged(func() {
		require.Contains(t, finish("complete", "a", "q", "", "2", "since", since), lost)
		require.Contains(t, finish("fail", "b", "q", "", "6", "group", "g", "message", "m", "since", since), lost)
		require.Contains(t, finish("retry", "c", "q", "", "2", "since", since), lost)
		require.Contains(t, finish("release", "d", "q", "", "2", "since", since), lost)
	})
	since = must(e.Redis.HGet(t.Context(), "ql:j:a", "time").Result())(t)
	require.Equal(t, "complete", finish("complete", "a", "q", "", "2", "since", since))
}

func TestAJobThatIsGoneIsNotWatchedAnyLonger(t *testing.T) {
	e := newEnv(t)
	e.Put("q", qless.JID("j"))
	job := e.Read("j")
	require.NoError(t, job.Track(t.Context()))
	require.NoError(t, job.Cancel(t.Context()))
	tracked := must(e.inspect().Tracked().JIDs(t.Context(), inspect.Range{}))(t)
	require.Equal(t, []string{"j"}, tracked.Items)
	require.NoError(t, job.Untrack(t.Context()))
	tracked = must(e.inspect().Tracked().JIDs(t.Context(), inspect.Range{}))(t)
	require.Empty(t, tracked.Items)
	requireCode(t, qless.ErrNotFound, job.Untrack(t.Context()))
}

func TestCancelLeavesACompleteJobThatIsNamedTwice(t *testing.T) {
	e := newEnv(t)
	e.Put("q", qless.JID("j"))
	require.NoError(t, e.Pop("q").Complete(t.Context()))
	e.Unchanged(func() { require.NoError(t, e.Cancel(t.Context(), "j", "j")) })
}

func TestWorkerReportsTheJobsThatItHolds(t *testing.T) {
	e := newEnv(t)
	for _, jid := range []string{"held", "theirs", "nobody's"} {
		e.Put("q", qless.JID(jid))
	}
	require.Len(t, e.Pops("q", 3), 3)
	require.NoError(t, repairs.TimeOut(t.Context(), e.Client, "theirs"))
	require.NoError(t, errOf(e.As("w2").Queue("q").Pop(t.Context(), 1)))
	require.NoError(t, repairs.TimeOut(t.Context(), e.Client, "nobody's"))
	jobs := must(repairs.HeldBy(t.Context(), e.Client, "w1"))(t)
	require.Equal(t, []string{"held"}, jobs)
	e.Clock.Advance(time.Hour)
	jobs = must(repairs.HeldBy(t.Context(), e.Client, "w1"))(t)
	require.Equal(t, []string{"held"}, jobs, "its lock has ended")
}

func TestAQueueThatGetsJobsByUnfailIsKnown(t *testing.T) {
	e := newEnv(t)
	e.Put("q", qless.JID("j"))
	require.NoError(t, e.Pop("q").Fail(t.Context(), "g", "m"))
	pubsub := e.Redis.Subscribe(t.Context(), "ql:x:queues")
	t.Cleanup(func() { _ = pubsub.Close() })
	require.NoError(t, errOf(pubsub.Receive(t.Context())))
	require.Equal(t, 1, must(repairs.UnfailInto(t.Context(), e.Client, "repair", "g", 5))(t))
	require.Equal(t, "repair", testkit.Soon(t, "word of the queue", pubsub.Channel()).Payload)
	listed := func() (names []string) {
		for _, queue := range must(e.Queues(t.Context()))(t) {
			names = append(names, queue.Name)
		}
		return names
	}
	require.Equal(t, []string{"q", "repair"}, listed())
	e.Put("repair")
	require.Equal(t, []string{"q", "repair"}, listed(), "once")
	require.NoError(t, errOf(e.Run(t.Context(), "queue.forget", "", "repair")))
	require.Equal(t, []string{"q"}, listed())
}
