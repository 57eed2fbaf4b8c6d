package qlesstest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/qlesstest"
)

type key struct{}

func TestWork(t *testing.T) {
	client := qlesstest.New(t).Client()
	worker, err := qless.NewWorker(client, qless.WorkerConfig{Queues: []string{"q"}})
	require.NoError(t, err)
	var order []string
	layer := func(name string) qless.Middleware {
		return func(next qless.Handler) qless.Handler {
			return func(ctx context.Context, job *qless.Job) error {
				order = append(order, name)
				return next(context.WithValue(ctx, key{}, name), job)
			}
		}
	}
	worker.Use(layer("outer"), layer("inner"))
	problem := errors.New("no such address")
	worker.Handle("Mail::*", qless.Typed(func(ctx context.Context, _ *qless.Job, to string) error {
		order = append(order, "handler")
		require.Equal(t, "inner", ctx.Value(key{}))
		_, err := qless.ClientFromContext(ctx).Queue("q").Put(ctx, "Followup", nil)
		require.NoError(t, err)
		if to == "" {
			return qless.FailWith("bad-address", problem)
		}
		return nil
	}))

	job := qlesstest.Job(t, "Mail::Welcome", "ann@example.com")
	require.Equal(t, qless.Outcome{Action: qless.ActionComplete}, qlesstest.Work(t, worker, job))
	require.Equal(t, []string{"outer", "inner", "handler"}, order)
	qlesstest.RequirePut(t, client, "q", "Followup")

	outcome := qlesstest.Work(t, worker, qlesstest.Job(t, "Mail::Welcome", ""))
	require.Equal(t, qless.ActionFail, outcome.Action)
	require.Equal(t, "bad-address", outcome.Group)
	require.ErrorIs(t, outcome.Err, problem)

	outcome = qlesstest.Work(t, worker, qlesstest.Job(t, "Mail::Welcome", 5))
	require.Equal(t, "Mail::Welcome:data", outcome.Group)
}

func TestWorkWithoutAHandler(t *testing.T) {
	client := qlesstest.New(t).Client()
	worker, err := qless.NewWorker(client, qless.WorkerConfig{Queues: []string{"q"}})
	require.NoError(t, err)
	worker.Handle("A", func(context.Context, *qless.Job) error { return nil })
	require.Nil(t, worker.Handler("B"))
	job := qlesstest.Job(t, "B", nil)
	work := func(t testing.TB) { qlesstest.Work(t, worker, job) }
	requireFailure(t, work, `no handler for the klass "B"`)
}

func TestWorkPassesAPanicOn(t *testing.T) {
	client := qlesstest.New(t).Client()
	worker, err := qless.NewWorker(client, qless.WorkerConfig{Queues: []string{"q"}})
	require.NoError(t, err)
	worker.Handle("A", func(context.Context, *qless.Job) error { panic("boom") })
	job := qlesstest.Job(t, "A", nil)
	require.PanicsWithValue(t, "boom", func() { qlesstest.Work(t, worker, job) })
}

// It is found by an entry for all workers with this list of queues.
func TestAWorkerOfAThousandQueues(t *testing.T) {
	server := qlesstest.New(t)
	queues := make([]string, 1000)
	for i := range queues {
		queues[i] = fmt.Sprint("q", i)
	}
	worker, err := qless.NewWorker(server.Client(), qless.WorkerConfig{Queues: queues})
	require.NoError(t, err)
	worker.Handle("K", func(context.Context, *qless.Job) error { return nil })
	start(t, worker)
	until(t, "the worker is idle", func() bool { return worker.Stats().Idle })
	for i, queue := range []string{"q0", "q500", "q999"} {
		_, err := server.Client().Queue(queue).Put(t.Context(), "K", nil)
		require.NoError(t, err)
		until(t, "it has run", func() bool { return worker.Stats().Completed == i+1 })
	}
}
