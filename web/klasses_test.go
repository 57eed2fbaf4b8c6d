package web_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/testkit"
	"github.com/qless/qless-go/web"
)

// work runs a worker until no job of the queue is left, and stops it.
func (d *desk) work(queue string, handlers map[string]qless.Handler) {
	d.t.Helper()
	worker := d.worker("w-"+queue, qless.WorkerConfig{}, queue, handlers)
	testkit.Until(d.t, "its jobs are done", func() bool {
		counts, err := d.Queue(queue).Counts(d.t.Context())
		d.do(err)
		return counts.Waiting+counts.Running+counts.Scheduled == 0
	})
	d.do(worker.Stop(context.Background()))
}

// worker starts a worker.
func (d *desk) worker(
	name string, config qless.WorkerConfig, queue string, handlers map[string]qless.Handler,
) *qless.Worker {
	d.t.Helper()
	config.Name = name
	config.Queues = []string{queue}
	worker, err := qless.NewWorker(d.Client, config)
	d.do(err)
	for klass, handler := range handlers {
		worker.Handle(klass, handler)
	}
	d.do(worker.Start(context.Background()))
	d.t.Cleanup(func() { _ = worker.Stop(context.Background()) })
	return worker
}

func TestKlassesHaveTheRatesThatWorkersTell(t *testing.T) {
	web.LimitLooks(t, time.Hour)
	d := newDesk(t, web.Options{})
	d.shows("/klasses", "No runs were counted")
	for range 3 {
		d.put("mail", "Send")
	}
	d.put("mail", "Resize", qless.Retries(0))
	d.work("mail", map[string]qless.Handler{
		"Send":   func(context.Context, *qless.Job) error { return nil },
		"Resize": func(context.Context, *qless.Job) error { return errors.New("no image") },
	})
	d = d.again(web.Options{})

	page := d.shows("/klasses", `<a href="/klasses/Send">Send</a>`, "100.0 %", "99 %")
	for _, over := range []string{"15m", "1h", "3h", "24h", "3d", "nonsense"} {
		klasses := d.read("/klasses?over=" + over)["klasses"].([]any)
		require.Len(t, klasses, 2, over)
		send := klasses[0].(map[string]any)
		require.Equal(t, "Send", send["name"], over)
		require.EqualValues(t, 3, send["completed"], over)
		require.EqualValues(t, 1, klasses[1].(map[string]any)["failed_part"], over)
	}
	require.Len(t, d.read("/klasses?queue=mail")["klasses"], 2)
	require.Empty(t, d.read("/klasses?queue=other")["klasses"])

	for _, over := range []string{"15m", "1h", "3h", "24h", "3d"} {
		page = d.page("/klasses/Send?over=" + over)
		require.Contains(t, page, `<path class="hue done"`, over)
		contains(t, page, "How long they ran", "As a table")
		data := d.read("/klasses/Send?over=" + over)
		require.EqualValues(t, 3, data["sum"].(map[string]any)["completed"], over)
		sum := 0.0
		for _, point := range data["history"].(map[string]any)["minutes"].([]any) {
			sum += point.(map[string]any)["completed"].(float64)
		}
		require.EqualValues(t, 3, sum, over)
	}
	d.shows("/klasses/None", "No run of this klass")
}
