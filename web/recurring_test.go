package web_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/internal/testkit"
	"github.com/qless/qless-go/web"
)

func TestRecurringJobsOfAllQueuesAreListed(t *testing.T) {
	d := newDesk(t, web.Options{})
	d.shows("/recurring", "There are no recurring jobs", `href="/schedules"`)
	d.shows("/schedules", "There are no schedules")
	for i := range 30 {
		queue := fmt.Sprintf("queue-%d", i%3)
		_, err := d.Queue(queue).Recur(t.Context(), "Tick", nil, 90*time.Second,
			qless.JID(fmt.Sprintf("tick-%02d", i)), qless.Offset(time.Hour))
		d.do(err)
	}
	d = d.again(web.Options{})
	page := d.shows("/recurring", `<a href="/recurring/tick-00">tick-00</a>`, "1m30s", "1–25 of 30")
	first := strings.Count(page, `href="/recurring/tick-`)
	page = d.page(d.linkTo(page, "/recurring?from=25"))
	require.Equal(t, 30, first+strings.Count(page, `href="/recurring/tick-`), "each is there once")
	require.NotContains(t, page, `href="/queues/queue-0"`)
	require.Len(t, d.read("/recurring?queue=queue-1")["jobs"], 10)
}

func TestARecurringJobHasItsJobs(t *testing.T) {
	d := newDesk(t, web.Options{})
	_, err := d.Queue("ticks").Recur(t.Context(), "Tick", map[string]string{"secret": "xyzzy"},
		time.Hour, qless.JID("tick"), qless.Tags{"red"})
	d.do(err)
	d.pop("ticks", 1)
	page := d.shows("/recurring/tick", `href="/jobs/tick-1"`, "xyzzy", "<dt>Every</dt><dd>1h</dd>",
		"<dt>Jobs put</dt><dd>1</dd>", "<dt>Next</dt><dd><time")
	for _, action := range []string{"recur.set", "recur.run", "recur.cancel"} {
		require.Contains(t, page, `formaction="/actions/`+action+`"`)
	}
	data := d.read("/recurring/tick")
	require.Equal(t, "1h", data["job"].(map[string]any)["interval"])
	require.Len(t, data["children"], 1)
	d.refused(http.StatusNotFound, "/recurring/none")

	d = d.again(web.Options{Redact: func(*qless.Job) {}})
	d.conceals("xyzzy", "/recurring/tick")
}

// follow lets a worker follow schedules during a test.
func (d *desk) follow(schedules ...qless.Schedule) *qless.Worker {
	d.t.Helper()
	worker := d.worker("follower", qless.WorkerConfig{Schedules: schedules}, "idle",
		map[string]qless.Handler{"Tick": func(context.Context, *qless.Job) error { return nil }})
	testkit.Until(d.t, "the schedules are registered", func() bool {
		page, err := inspect.New(d.Client).Schedules(d.t.Context(), inspect.Range{})
		d.do(err)
		return page.Total == len(schedules)
	})
	return worker
}

func TestSchedulesAreListed(t *testing.T) {
	d := newDesk(t, web.Options{})
	d.follow(
		qless.Schedule{ID: "nightly", When: "CRON_TZ=Europe/Berlin 30 6 * * *", Queue: "mail",
			Job: qless.JobSpec{Klass: "Report", Data: map[string]string{"secret": "xyzzy"}}},
		qless.Schedule{ID: "a/b?c", When: "@every 30h", Queue: "mail", Job: qless.JobSpec{Klass: "Tick"}},
	)
	require.NotContains(t, d.page("/recurring"), "nightly", "schedules have a page of their own")
	page := d.shows("/schedules", `<a href="/schedules/nightly">nightly</a>`, "every day at 06:30",
		"Europe/Berlin", "every 30h")
	d.shows(d.linkTo(page, "/schedules/a%2Fb"), "a/b?c")
	page = d.shows("/schedules/nightly", `href="/workers/follower"`, "xyzzy",
		`formaction="/actions/schedule.run"`, `formaction="/actions/schedule.forget"`)
	data := d.read("/schedules/nightly")
	require.Equal(t, "nightly", data["id"])
	require.Equal(t, "every day at 06:30", data["words"])
	runs := data["next_runs"].([]any)
	require.Len(t, runs, 5)
	require.Equal(t, data["next"], runs[0])
	require.Contains(t, page, "Next runs")
	d.refused(http.StatusNotFound, "/schedules/none")

	d = d.again(web.Options{Redact: func(*qless.Job) {}})
	d.conceals("xyzzy", "/schedules/nightly")
}
