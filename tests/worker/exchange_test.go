package worker

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
)

// An observer records the calls that it receives.
type observer struct {
	mu    sync.Mutex
	calls []qless.Command
}

func (o *observer) observe(_ context.Context, call qless.Command) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.calls = append(o.calls, call)
}

// take returns and removes the recorded calls.
func (o *observer) take() []qless.Command {
	o.mu.Lock()
	defer o.mu.Unlock()
	calls := o.calls
	o.calls = nil
	return calls
}

func TestTheObserverSeesAWorkersExchanges(t *testing.T) {
	var seen observer
	e := newLiveEnv(t)
	client := e.NewLiveClient(e.Redis, qless.ClientConfig{Observer: seen.observe})
	worker := newWorker(t, client, qless.WorkerConfig{Queues: []string{"q"}, PollInterval: time.Hour})
	worker.Handle("K", nothing)
	require.NoError(t, worker.Start(t.Context()))
	e.Put("q", qless.JID("a"))
	until(t, "the job is complete", func() bool { return e.Read("a").State == qless.StateComplete })
	require.NoError(t, worker.Stop(t.Context()))
	reserved, finished := 0, []qless.Command{}
	for _, call := range seen.take() {
		switch call.Name {
		case "reserve":
			require.NoError(t, call.Err)
			reserved += call.Count
		case "finish":
			call.Duration = 0
			finished = append(finished, call)
		}
	}
	require.Equal(t, 1, reserved)
	require.Equal(t, []qless.Command{{Name: "finish", Queue: "q", JID: "a", Count: 1}}, finished)
}
