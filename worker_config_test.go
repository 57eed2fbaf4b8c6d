package qless_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
)

func TestAWorkersConfigIsChecked(t *testing.T) {
	queues := []string{"q"}
	for name, config := range map[string]qless.WorkerConfig{
		"no queue":                   {},
		"a queue without a name":     {Queues: []string{"q", ""}},
		"a queue that is no text":    {Queues: []string{"\xff"}},
		"a name that is no text":     {Queues: queues, Name: "\xff"},
		"negative Concurrency":       {Queues: queues, Concurrency: -1},
		"negative MaxRunTime":        {Queues: queues, MaxRunTime: -1},
		"negative PollInterval":      {Queues: queues, PollInterval: -1},
		"negative ShutdownTimeout":   {Queues: queues, ShutdownTimeout: -1},
		"negative UnknownKlassDelay": {Queues: queues, UnknownKlassDelay: -1},
		"an Order below":             {Queues: queues, Order: -1},
		"an Order above":             {Queues: queues, Order: 3},
	} {
		t.Run(name, func(t *testing.T) {
			w := qless.NewWorker(offline(t), config)
			requireCode(t, qless.ErrInvalid, w.Start(t.Context()))
			requireCode(t, qless.ErrInvalid, w.Run(t.Context()))
		})
	}
}

func TestAWorkerAsksAThousandNamedQueuesAtMost(t *testing.T) {
	queues := []string{"q*", "!q1", "name0"}
	for i := range 1001 {
		queues = append(queues, fmt.Sprint("name", i))
	}
	w := qless.NewWorker(offline(t), qless.WorkerConfig{Queues: queues})
	err := requireCode(t, qless.ErrInvalid, w.Start(t.Context()))
	require.Equal(t, "WorkerConfig.Queues names 1001 queues; a worker asks at most 1000", err.Message)

	w = qless.NewWorker(offline(t), qless.WorkerConfig{Queues: queues[:len(queues)-1]})
	require.NoError(t, w.Start(t.Context()))
	require.NoError(t, w.Stop(t.Context()))
}

func TestAWorkerLocksUnderItsName(t *testing.T) {
	e := newLiveEnv(t)
	one, two := e.worker(qless.WorkerConfig{}), e.worker(qless.WorkerConfig{})
	require.Regexp(t, `^.+-\d+-[0-9a-f]{8}$`, one.Name())
	require.NotEqual(t, one.Name(), two.Name(), "though their clients have one name")

	w, jid, _, _ := e.holding(qless.WorkerConfig{Name: "me"})
	require.Equal(t, "me", w.Name())
	require.Equal(t, "me", e.job(jid).Worker)
	worker, err := e.WorkerJobs(t.Context(), "me")
	require.NoError(t, err)
	require.Equal(t, []string{jid}, worker.Jobs)
}
