package web_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/internal/testkit"
	"github.com/qless/qless-go/web"
)

// A dashboard that has never been open shows what was before.
func TestTrendsAreThereAtTheFirstView(t *testing.T) {
	d := newDesk(t, web.Options{})
	for _, queue := range []string{"mail", "mail", "mail", "sms"} {
		d.put(queue, "Send")
	}
	d.do(inspect.New(d.Client).RecordHistory(t.Context()))
	page := d.shows("/", `aria-label="waiting each 1m, at most 4"`,
		`aria-label="waiting each 1m, at most 3"`)
	require.Regexp(t, `Trends: \d+m of 1h\d*m? known`, page)
	d.shows("/queues", `aria-label="waiting each 1m, at most 3"`)
	d.shows("/queues/mail?since=2h", `aria-label="waiting each 1m, at most 3"`)
	d.shows("/queues/mail?with=sms&over=3d", `<section aria-label="History of sms"><h2>sms</h2>`,
		`aria-label="waiting each 1h, at most 1"`)
	require.Len(t, d.read("/queues/mail?with=sms")["history"], 2)
	require.Contains(t, d.refused(http.StatusBadRequest, "/?since=yesterday"), "is not a time")
}

// The ends of a period hold for all charts of a page.
func TestChartsShowAPeriod(t *testing.T) {
	web.LimitLooks(t, time.Hour)
	d := newDesk(t, web.Options{})
	now := time.Now().UTC().Truncate(time.Minute)
	d.put("mail", "Send")
	at := func(ago time.Duration) string { return now.Add(-ago).Format("2006-01-02 15:04") }
	for number, one := range []struct {
		ago  time.Duration
		jobs int
	}{{3 * time.Hour, 5}, {26 * time.Hour, 7}} {
		_, err := d.Do(t.Context(), "rates.add", "run", number+1, int(one.ago.Seconds()), "mail", "Send",
			fmt.Sprintf("%d,0,0||", one.jobs))
		d.do(err)
	}
	for _, one := range []struct {
		since, until string
		done         float64
	}{
		{at(4 * time.Hour), at(2 * time.Hour), 5}, {at(27 * time.Hour), at(25 * time.Hour), 7},
		{at(27 * time.Hour), "", 12}, {at(2 * time.Hour), "", 0}, {"4h", "2h", 5}, {"", at(170 * time.Minute), 5},
	} {
		period := url.Values{"since": {one.since}, "until": {one.until}, "list": {"charts"}}.Encode()
		for _, page := range []string{"/queues/mail?", "/klasses/Send?"} {
			var sum any
			testkit.Until(t, "all is read", func() bool {
				data := d.read(page + period)
				if rates, isQueue := data["rates"]; isQueue {
					data = rates.(map[string]any)
				} else {
					data = data["history"].(map[string]any)
				}
				sum = data["sum"].(map[string]any)["completed"]
				return data["has_more"] == nil
			})
			require.Equal(t, one.done, sum, "%s%s", page, period)
		}
	}
	page := d.shows("/queues/mail?list=charts&since=4h&until=2h", "Done, in this time")
	require.NotContains(t, page, `aria-current="true">1 h</a>`)
	require.Contains(t, page, `href="/queues/mail?list=charts&amp;over=3h"`, "a span takes the place of the period")
}

// An open page records what no worker does.
func TestAnOpenPageRecordsTheHistory(t *testing.T) {
	d := newDesk(t, web.Options{})
	d.put("mail", "Send")
	d.page("/")
	histories, err := inspect.New(d.Client).History(t.Context(), inspect.HistoryQuery{Queues: []string{"mail"}})
	d.do(err)
	points := histories[1].Points
	require.Equal(t, 1, points[len(points)-1].Waiting)
}

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

	d.shows("/klasses", `<a href="/klasses/Send">Send</a>`, "100.0 %", "99 %")
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
		page := d.page("/klasses/Send?over=" + over)
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
