package api

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
)

// sets sets the progress of a popped job.
func (e *env) sets(job *qless.Job, done, total int, note string) {
	e.T.Helper()
	require.NoError(e.T, job.SetProgress(e.T.Context(), done, total, note))
}

func TestTheLastProgressOfAJobCounts(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		jid := e.Put("q", qless.Headers{"a": "1"})
		before := e.Read(jid)
		require.Nil(t, before.Progress)
		job := e.Pop("q")
		e.sets(job, 1, 3, "fetch \"it\"\n")
		e.Clock.Advance(time.Second)
		e.sets(job, 2, 0, "")
		got := e.Read(jid)
		require.WithinDuration(t, e.Clock.Now(), got.Progress.Time, time.Millisecond)
		require.Equal(t, &qless.Progress{Done: 2, Attempt: 1, Time: got.Progress.Time}, got.Progress)
		require.Equal(t, before.Data, got.Data)
		require.Equal(t, before.Headers, got.Headers)
		require.Equal(t, []string{"put", "popped"}, whats(got.History))
		require.Nil(t, job.Progress)
		require.NoError(t, job.Refresh(t.Context()))
		require.Equal(t, got.Progress, job.Progress)
		e.sets(job, 1<<53, 1<<53, strings.Repeat("n", 1024))
		require.Equal(t, 1<<53, e.Read(jid).Progress.Total)
		require.Equal(t, 1<<53, must(e.Jobs(t.Context(), jid))(t)[0].Progress.Done)
	})
}

func TestProgressStaysUntilTheJobIsPutAgain(t *testing.T) {
	for name, c := range map[string]struct {
		do    func(e *env, job *qless.Job) error
		stays bool
	}{
		"retried":   {func(e *env, job *qless.Job) error { return errOf(job.Retry(e.T.Context(), 0, "", "")) }, true},
		"released":  {func(e *env, job *qless.Job) error { return job.Release(e.T.Context(), 0) }, true},
		"complete":  {func(e *env, job *qless.Job) error { return job.Complete(e.T.Context()) }, true},
		"failed":    {func(e *env, job *qless.Job) error { return job.Fail(e.T.Context(), "g", "m") }, true},
		"next":      {func(e *env, job *qless.Job) error { return job.Next(e.T.Context(), "q2") }, true},
		"moved":     {func(e *env, job *qless.Job) error { return job.Move(e.T.Context(), "q2") }, false},
		"put again": {func(e *env, job *qless.Job) error { e.Put("q", qless.JID(job.JID)); return nil }, false},
		"put again when complete": {func(e *env, job *qless.Job) error {
			_ = job.Complete(e.T.Context())
			e.Put("q", qless.JID(job.JID), qless.Headers{"a": "2"})
			return nil
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(t *testing.T, e *env) {
				jid := e.Put("q", qless.LockTime(time.Minute))
				job := e.Pop("q")
				e.sets(job, 1, 2, "half")
				set := e.Read(jid).Progress
				require.NoError(t, c.do(e, job))
				got := e.Read(jid)
				require.Equal(t, time.Minute, got.Options.LockTime)
				if !c.stays {
					require.Nil(t, got.Progress)
					return
				}
				require.Equal(t, set, got.Progress)
			})
		})
	}
}

func TestInvalidProgress(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		e.Put("q")
		job := e.Pop("q")
		e.Unchanged(func() {
			for _, set := range []func() error{
				func() error { return job.SetProgress(t.Context(), -1, 2, "") },
				func() error { return job.SetProgress(t.Context(), 1, -2, "") },
				func() error { return job.SetProgress(t.Context(), 1<<53+1, 0, "") },
				func() error { return job.SetProgress(t.Context(), 1, 2, strings.Repeat("n", 1025)) },
				func() error { return (&qless.Job{}).SetProgress(t.Context(), 1, 2, "") },
			} {
				requireCode(t, qless.ErrInvalid, set())
			}
		})
		e.sets(job, 3, 2, "\xff")
		require.Equal(t, "\uFFFD", e.Read(job.JID).Progress.Note)
	})
}

func TestDamagedProgressCountsAsNone(t *testing.T) {
	e := newEnv(t)
	jid := e.Put("q")
	e.sets(e.Pop("q"), 1, 2, "")
	for _, damaged := range []string{"", "x", "{}", "1|2|3", "a|2|1|4|", "1|2|nan|4|", "1|2|1|inf|", "1||1|4|"} {
		require.NoError(t, e.Redis.HSet(t.Context(), "ql:j:"+jid, "x:progress", damaged).Err())
		require.Nil(t, e.Read(jid).Progress, damaged)
	}
	require.NoError(t, e.Redis.HDel(t.Context(), "ql:j:"+jid, "x:progress").Err())
	require.Nil(t, e.Read(jid).Progress)
}

// follows waits for a job, and passes on its progress.
func (e *env) follows(jid string) (progress chan qless.Progress, ended chan ending) {
	e.T.Helper()
	e.T.Cleanup(func() { _ = e.Close() })
	progress, ended = make(chan qless.Progress, 100), make(chan ending, 1)
	go func() {
		result, err := e.Wait(context.Background(), jid,
			qless.OnProgress(func(p qless.Progress) { progress <- p }))
		ended <- ending{result, err}
	}()
	return progress, ended
}

func (e *env) nextProgress(progress chan qless.Progress) qless.Progress {
	e.T.Helper()
	select {
	case p := <-progress:
		return p
	case <-time.After(patience):
		require.FailNow(e.T, "no progress")
		return qless.Progress{}
	}
}

func TestAWaitReportsProgress(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		jid := e.Put("q")
		job := e.Pop("q")
		e.sets(job, 1, 3, "first")
		progress, ended := e.follows(jid)
		require.Equal(t, "first", e.nextProgress(progress).Note)
		require.Eventually(t, func() bool {
			heard, err := e.Redis.PubSubNumSub(t.Context(), "ql:x:progress:"+jid).Result()
			return err == nil && heard["ql:x:progress:"+jid] == 1
		}, patience, time.Millisecond)
		for done, note := range []string{"second", "third"} {
			e.Clock.Advance(time.Second)
			e.sets(job, 2+done, 3, note)
			require.Equal(t, *e.Read(jid).Progress, e.nextProgress(progress))
		}
		require.NoError(t, job.Complete(t.Context()))
		require.Equal(t, qless.StateComplete, e.soon(ended).result.State)
		require.Empty(t, progress)
	})
}

func TestProgressIsPublishedOnlyForWaiters(t *testing.T) {
	e := newEnv(t)
	jid := e.Put("q", qless.JID("j"))
	job := e.Pop("q")
	e.sets(job, 1, 2, "")
	commands := func() int { return len(e.Server.Commands(t, func() { e.sets(job, 1, 2, "") })) }
	require.Equal(t, 2, commands())
	require.NoError(t, errOf(e.Run(t.Context(), "await", jid, jid)))
	require.Equal(t, 3, commands())
}

func TestProgressOfSeveralJobs(t *testing.T) {
	e := newEnv(t)
	for _, jid := range []string{"a", "b", "c"} {
		e.Put("q", qless.JID(jid))
	}
	e.Pops("q", 2)
	reply := must(e.Run(t.Context(), "progress", "",
		"w1", "a", "", "1", "2", "n", "c", "", "1", "2", "", "b", "1", "1", "2", "", "b", "", "2", "2", ""))(t)
	answers := reply.([]any)
	require.Equal(t, []any{"", "!not_running 1 33 c is not currently running: waiting"}, answers[:2])
	require.Contains(t, answers[2], " b has been handed out to another worker: w1, at ")
	require.Equal(t, "", answers[3])
	require.Equal(t, 2, e.Read("b").Progress.Done)
}
