package web_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/testkit"
	"github.com/qless/qless-go/web"
)

func TestAWorkerIsShownWithWhatItSaysAndItsJobs(t *testing.T) {
	d := newDesk(t, web.Options{})
	d.shows("/workers", "No worker was seen lately")
	jid := d.put("mail", "Send")
	started, done := make(chan struct{}), make(chan struct{})
	d.worker("the worker/1", qless.WorkerConfig{Concurrency: 3}, "mail", map[string]qless.Handler{
		"Send": func(context.Context, *qless.Job) error {
			close(started)
			<-done
			return nil
		},
	})
	defer close(done)
	testkit.Soon(t, "the job runs", started)
	var page string
	testkit.Until(t, "the worker is registered", func() bool {
		d = d.again(web.Options{})
		page = d.page("/workers")
		return !strings.Contains(page, "No details")
	})
	link := d.linkTo(page, "/workers/")
	require.Equal(t, "/workers/the%20worker%2F1", link)
	contains(t, page, "1 of 3", ">working</span>")
	d.shows("/workers?queue=mail", link)
	d.shows("/workers?queue=other", "No known worker takes jobs from this queue")

	d.shows(link, `value="running:`+jid+`"`, "1 of 3 busy", `action="/actions/worker.forget"`,
		`name="worker" value="the worker/1"`)
	data := d.read(link)
	require.EqualValues(t, 1, data["running"])
	require.Equal(t, jid, data["jobs"].([]any)[0].(map[string]any)["jid"])
}

func TestASilentWorkerAndItsStalledJobs(t *testing.T) {
	clock := testkit.NewClock()
	d := newDesk(t, web.Options{})
	d = d.as(qless.ClientConfig{Clock: clock.Now, WorkerName: "silent"}).again(web.Options{})
	jid := d.put("mail", "Send")
	d.pop("mail", 1)
	d.shows("/workers", `<a href="/workers/silent">silent</a>`,
		"No details: not a Go worker.")
	clock.Advance(2 * time.Minute)
	d = d.again(web.Options{})
	data := d.read("/workers/silent")
	require.EqualValues(t, 1, data["stalled"])
	require.EqualValues(t, 0, data["running"])
	d.shows("/workers/silent", jid)
	d.refused(http.StatusNotFound, "/workers/nobody", "No worker of this name is listed")
}

func TestARunIsShownBesideUsualOnes(t *testing.T) {
	d := newDesk(t, web.Options{})
	d.do(d.Config().Set(t.Context(), "heartbeat", 24*time.Hour))
	d.put("mail", "Import")
	d.work("mail", map[string]qless.Handler{
		"Import": func(context.Context, *qless.Job) error { return nil },
	})
	pop := func(klass string, ago time.Duration) *qless.Job {
		then := d.ago(ago)
		then.put("mail", klass)
		jobs := then.pop("mail", 1)
		require.Len(t, jobs, 1)
		return jobs[0]
	}
	pages := func(worker string) []string {
		d = d.again(web.Options{})
		return []string{
			d.page("/workers"), d.page("/workers/" + worker), d.page("/queues/mail?list=running"),
		}
	}
	job := pop("Import", 4*time.Minute)
	d.do(job.SetProgress(t.Context(), 3, 9, "reading"))
	for _, page := range pages(job.Worker) {
		require.Regexp(t, `<span class="nowrap"><time [^>]*>4m0\ds ago</time>, usually takes \d`, page)
		require.Contains(t, page, "3 of 9, reading")
	}
	d.do(job.Complete(t.Context()))
	for _, page := range pages(pop("Import", 2*time.Hour).Worker) {
		require.Regexp(t, `<span class="nowrap bad"><time [^>]*>2h00m ago</time>, usually takes \d`, page)
	}
}
