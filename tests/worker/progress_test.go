package worker

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
)

func TestFirstProgressAtOnceAndLastBeforeTheOutcome(t *testing.T) {
	for name, err := range map[string]error{"complete": nil, "failed": qless.FailWith("g", errors.New("m"))} {
		t.Run(name, func(t *testing.T) {
			e, w := workerEnv(t, qless.WorkerConfig{})
			w.Handle("K", func(ctx context.Context, job *qless.Job) error {
				for done := range 100 {
					require.NoError(t, job.SetProgress(ctx, done, 1000, fmt.Sprint("step ", done)))
					if done == 0 {
						w.await(t, "the first progress", 1, of("progress"))
					}
				}
				return err
			})
			w.start()
			jid := e.Put("q")
			require.Equal(t, map[string]string{"complete": "complete", "failed": "fail"}[name], w.outcome(jid).action)
			got := e.Read(jid).Progress
			require.NotNil(t, got)
			require.Equal(t, "step 99", got.Note)
			require.Equal(t, 1, got.Attempt)
			first := w.await(t, "the first progress", 1, of("progress"))
			require.Equal(t, []string{"0", "1000", "step 0"}, first.args[3:])
		})
	}
}

func TestProgressIsSentOnceASecondAndAtOnceWhenDone(t *testing.T) {
	e := newLiveEnv(t)
	end := make(chan bool)
	w := e.working(qless.WorkerConfig{}, func(ctx context.Context, job *qless.Job) error {
		for begun, done := time.Now(), 0; done < 2 || time.Since(begun) < 1500*time.Millisecond; done++ {
			require.NoError(t, job.SetProgress(ctx, done, 1<<40, ""))
		}
		err := job.SetProgress(ctx, 1<<40, 1<<40, "")
		<-end
		return err
	})
	jid := e.Put("q")
	until(t, "all is done", func() bool {
		p := e.Read(jid).Progress
		return p != nil && p.Done == p.Total
	})
	w.await(t, "the first, one a second later, and the last", 3, of("progress"))
	require.Less(t, w.count(of("progress")), 20)
	close(end)
	require.Equal(t, "complete", w.outcome(jid).action)
}

func TestProgressOfALostRunIsDropped(t *testing.T) {
	e := newLiveEnv(t)
	var refused error
	w := e.working(qless.WorkerConfig{}, func(ctx context.Context, job *qless.Job) error {
		require.NoError(t, job.SetProgress(ctx, 1, 3, ""))
		<-ctx.Done()
		refused = job.SetProgress(ctx, 2, 3, "")
		return nil
	})
	jid := e.Put("q")
	until(t, "the progress", func() bool { return e.Read(jid).Progress != nil })
	require.NoError(t, e.Cancel(t.Context(), jid))
	w.stop()
	requireCode(t, qless.ErrLockLost, refused)
}

func TestProgressOutlivesAnOutage(t *testing.T) {
	t.Parallel()
	end := make(chan bool)
	e, w := workerEnv(t, qless.WorkerConfig{}, func(ctx context.Context, job *qless.Job) error {
		err := job.SetProgress(ctx, 1, 3, "")
		<-end
		return err
	})
	refusals := 0
	w.instead("progress", func(send func() error) error {
		if refusals++; refusals < 3 {
			return errors.New("connection lost")
		}
		return send()
	})
	w.start()
	jid := e.Put("q")
	until(t, "the progress", func() bool { return e.Read(jid).Progress != nil })
	close(end)
	require.Equal(t, "complete", w.outcome(jid).action)
	require.GreaterOrEqual(t, refusals, 3)
}

func TestAServerThatRefusesProgressDoesNotDisturbTheJob(t *testing.T) {
	e, w := workerEnv(t, qless.WorkerConfig{})
	w.refuseScript("progress", serverError("NOPERM no"))
	w.Handle("K", func(ctx context.Context, job *qless.Job) error { return job.SetProgress(ctx, 3, 3, "") })
	w.start()
	for range 2 {
		require.Equal(t, "complete", w.outcome(e.Put("q")).action)
	}
	require.Equal(t, 1, w.log.count("refuses the progress"))
}
