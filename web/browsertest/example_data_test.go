package browsertest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/testkit"
)

// An example fills a namespace with the jobs of a shop: completed, failed, dependent, scheduled and
// running ones.
type example struct {
	t   *testing.T
	now *qless.Client
	b   *board

	every int // the interval between minutes with runs
}

// fill puts the example data into a dashboard's namespace. Its workers run until the test ends.
func fill(t *testing.T, b *board) {
	t.Helper()
	fillEvery(t, b, 4)
}

func fillEvery(t *testing.T, b *board, minutes int) {
	t.Helper()
	e := &example{t: t, now: b.Client, b: b, every: minutes}
	e.settings()
	e.days()
	e.history()
	e.failures()
	e.order()
	e.queues()
	e.graph()
	e.plans()
	e.workers()
}

func (e *example) must(err error) {
	e.t.Helper()
	require.NoError(e.t, err)
}

// ago returns a client whose clock is behind.
func (e *example) ago(d time.Duration, worker string) *qless.Client {
	e.t.Helper()
	client, err := qless.New(e.b.rdb, &qless.ClientConfig{
		Clock:      func() time.Time { return time.Now().Add(-d) },
		Logger:     testkit.Quiet(),
		WorkerName: worker,
	})
	e.must(err)
	return client
}

func (e *example) put(c *qless.Client, queue, klass string, data any, options ...qless.PutOption) string {
	e.t.Helper()
	jid, err := c.Queue(queue).Put(e.t.Context(), klass, data, options...)
	e.must(err)
	return jid
}

// pop takes the only job of a queue.
func (e *example) pop(c *qless.Client, queue string) *qless.Job {
	e.t.Helper()
	jobs, err := c.Queue(queue).Pop(e.t.Context(), 1)
	e.must(err)
	require.Len(e.t, jobs, 1)
	return jobs[0]
}

func (e *example) settings() {
	ctx := e.t.Context()
	e.must(e.now.Config().Set(ctx, "jobs-history-count", 2000))
	e.must(e.now.Limit("card-gateway").Set(ctx, qless.LimitConfig{Concurrency: 2, Rate: 100, Per: time.Minute}))
	e.must(e.now.Limit("geocoder").Set(ctx, qless.LimitConfig{Rate: 10, Per: time.Second}))
	e.must(e.now.Queue("images").SetMaxConcurrency(ctx, 3))
}

// days completes jobs on each of the last days, and lets some fail and be retried.
func (e *example) days() {
	ctx := e.t.Context()
	for day := 7; day > 0; day-- {
		then := e.ago(time.Duration(day)*24*time.Hour, "shop-1")
		specs := make([]qless.JobSpec, 18+4*(day%3)+day)
		for i := range specs {
			specs[i].Klass = "SendReceipt"
		}
		_, err := then.Queue("mail").PutMany(ctx, specs)
		e.must(err)
		jobs, err := then.Queue("mail").Pop(ctx, len(specs))
		e.must(err)
		for i, job := range jobs {
			if i > day%4 {
				e.must(job.Complete(ctx))
				continue
			}
			e.must(job.Fail(ctx, "SendReceipt:smtp", "421 mailbox is busy"))
			e.must(then.Cancel(ctx, job.JID))
		}
	}
}

// history runs jobs in each minute of the last hour.
func (e *example) history() {
	for minute := 56; minute > 0; minute -= e.every {
		wave := 4 + int(6*(1+math.Sin(float64(minute)/9)))
		e.minute(time.Duration(minute)*time.Minute, wave)
	}
}

var errBusy = errors.New("421 mailbox is busy")

// minute lets a worker run some jobs as if it were an earlier minute.
func (e *example) minute(ago time.Duration, count int) {
	before, then := e.ago(ago+3*time.Second, "web-1"), e.ago(ago, "history")
	total := 0
	for i := range count {
		for _, job := range []struct {
			queue, klass string
			every        int
		}{{"mail", "SendReceipt", 1}, {"mail", "SendDigest", 2}, {"images", "Resize", 1}, {"search", "Index", 3}} {
			if i%job.every == 0 {
				e.put(before, job.queue, job.klass, map[string]int{"customer": 4100 + i})
				total++
			}
		}
	}
	ended := make(chan struct{}, 10*total)
	worker, err := qless.NewWorker(then, qless.WorkerConfig{
		Name: "history", Queues: []string{"mail", "images", "search"}, Concurrency: 4, PollInterval: time.Second,
		Observer: func(event qless.JobEvent) {
			if event.Kind == qless.JobEventEnded {
				ended <- struct{}{}
			}
		},
	})
	e.must(err)
	worker.Handle("*", func(_ context.Context, job *qless.Job) error {
		if job.Klass == "SendDigest" && job.JID[0] < '5' {
			return qless.RetryIn(time.Second, errBusy)
		}
		return nil
	})
	e.must(worker.Start(e.t.Context()))
	for range total {
		testkit.Soon(e.t, "the end of a job", ended)
	}
	e.must(worker.Stop(e.t.Context()))
}

// failures fails jobs of several klasses in several groups.
func (e *example) failures() {
	for i, one := range []struct {
		queue, klass, group, message string
		count                        int
	}{
		{"billing", "Charge", "Charge:card_declined", "the bank declined the card: insufficient funds", 14},
		{"billing", "Charge", "Charge:timeout", "Post \"https://cards.example/v2/charges\": context deadline exceeded", 6},
		{"exports", "Export", "Export:*csv.ParseError", "record on line 1842: wrong number of fields\n\n" +
			"goroutine 91 [running]:\nshop/exports.(*Reader).next(0xc000312000)\n\t/src/exports/reader.go:118\n" +
			"shop/exports.Export({0x9d2f40, 0xc00021e0f0}, 0xc0003a6000)\n\t/src/exports/export.go:57", 4},
		{"mail", "SendDigest", "SendDigest:smtp", "550 no such user", 23},
		{"mail", "SendReceipt", "SendReceipt:smtp", "550 no such user", 3},
	} {
		for n := range one.count {
			c := e.ago(time.Duration(40-n)*time.Minute+time.Duration(i)*time.Second, fmt.Sprintf("shop-%d", 1+n%3))
			jid := fmt.Sprintf("%s-%d", one.klass, 70000+1000*i+n)
			e.put(c, one.queue, one.klass, map[string]any{"customer": 4100 + n, "attempt": "nightly"},
				qless.JID(jid), qless.Tags{fmt.Sprintf("customer-%d", 4100+n)}, qless.Priority(1000))
			e.must(e.pop(c, one.queue).Fail(e.t.Context(), one.group, one.message))
		}
	}
}

// order puts the job whose way is shown: through four queues, with a retry, a failure and notes.
func (e *example) order() {
	ctx := e.t.Context()
	at := func(minutes, seconds int, worker string) *qless.Client {
		return e.ago(time.Duration(minutes)*time.Minute+time.Duration(seconds)*time.Second, worker)
	}
	e.put(at(9, 0, "web-1"), "checkout", "Order", map[string]any{
		"order": 81723, "customer": "c-4107", "total": "129.90 EUR",
		"items": []map[string]any{{"sku": "lamp-oak", "count": 1}, {"sku": "bulb-e27", "count": 4}},
	}, qless.JID("order-81723"), qless.Tags{"customer-4107", "express"}, qless.Priority(5),
		qless.Headers{"request-id": "7f3a9c12"})
	job := e.pop(at(8, 20, "shop-1"), "checkout")
	e.must(job.Track(ctx))
	e.must(job.Log(ctx, "stock reserved", map[string]any{"warehouse": "Bremen"}))
	_, err := job.Retry(ctx, 0, "Order:timeout", "the warehouse did not answer within 10s")
	e.must(err)
	job = e.pop(at(7, 30, "shop-2"), "checkout")
	e.must(job.Next(ctx, "billing", qless.Priority(9000)))
	job = e.pop(at(6, 10, "shop-1"), "billing")
	e.must(job.Log(ctx, "card charged", map[string]any{"amount": "129.90", "id": "ch_9921"}))
	e.must(e.jobAt(at(5, 0, "shop-1"), job).Next(ctx, "packing"))
	job = e.pop(at(3, 30, "shop-3"), "packing")
	e.must(e.jobAt(at(2, 0, "shop-3"), job).Next(ctx, "shipping"))
}

// jobAt returns the same job, taken by an earlier client.
func (e *example) jobAt(c *qless.Client, job *qless.Job) *qless.Job {
	e.t.Helper()
	same, err := c.Job(e.t.Context(), job.JID)
	e.must(err)
	return same
}

// queues fills the queues with jobs in all states.
func (e *example) queues() {
	ctx := e.t.Context()
	for i := range 64 {
		e.put(e.ago(time.Duration(64-i)*5*time.Second, "web-1"), "mail", "SendReceipt",
			map[string]any{"to": fmt.Sprintf("customer-%d@example.com", 4100+i)}, qless.Priority(i%3))
	}
	for i := range 90 {
		e.put(e.ago(time.Duration(90-i)*9*time.Second, "web-1"), "exports", "Export",
			map[string]any{"month": "2026-10", "shop": i}, qless.Fair(fmt.Sprintf("shop-%d", i%7)))
	}
	for i := range 12 {
		e.put(e.now, "images", "Resize", map[string]any{"image": i}, qless.Priority(-i))
		e.put(e.now, "billing", "Charge", map[string]any{"invoice": 9000 + i}, qless.Limits{"card-gateway"})
		e.put(e.now, "reminders", "Remind", map[string]any{"customer": 4100 + i},
			qless.Delay(time.Duration(i+1)*13*time.Minute), qless.Tags{"cart"})
	}
	e.must(e.now.Queue("reminders").Pause(ctx))
	lost := e.ago(10*time.Minute, "shop-4")
	for i := range 3 {
		e.put(lost, "imports", "Import", map[string]any{"file": fmt.Sprintf("stock-%d.csv", i)})
	}
	_, err := lost.Queue("imports").Pop(ctx, 3)
	e.must(err)
}

// graph puts jobs that wait for each other: a release of a catalog.
func (e *example) graph() {
	put := func(jid, klass string, after ...string) {
		e.put(e.now, "catalog", klass, map[string]string{"catalog": "winter"}, qless.JID(jid),
			qless.DependsOn(after), qless.OnFailureWait)
	}
	put("fetch-suppliers", "Fetch")
	put("fetch-prices", "Fetch")
	put("clean", "Clean", "fetch-suppliers", "fetch-prices")
	for _, language := range []string{"de", "en", "fr"} {
		put("translate-"+language, "Translate", "clean")
		put("render-"+language, "Render", "translate-"+language)
	}
	put("index", "Index", "translate-de", "translate-en", "translate-fr")
	put("publish", "Publish", "render-de", "render-en", "render-fr", "index")
	job := e.pop(e.ago(time.Minute, "shop-2"), "catalog")
	e.must(job.Complete(e.t.Context()))
	job = e.pop(e.ago(time.Minute, "shop-2"), "catalog")
	e.must(job.Complete(e.t.Context()))
}

// plans puts recurring jobs, and a batch.
func (e *example) plans() {
	ctx := e.t.Context()
	for jid, every := range map[string]time.Duration{
		"refresh-rates": 15 * time.Minute, "sweep-carts": time.Hour, "rebuild-sitemap": 24 * time.Hour,
	} {
		_, err := e.now.Queue("housekeeping").Recur(ctx, "Housekeeping", map[string]string{"task": jid}, every,
			qless.JID(jid), qless.Offset(7*time.Minute), qless.Tags{"routine"})
		e.must(err)
	}
	batch, err := e.now.NewBatch(ctx, "newsletter",
		qless.NewKlass[any]("Summarize").Spec(nil, qless.JID("newsletter-november")))
	e.must(err)
	var jobs []qless.JobSpec
	for i := range 20 {
		jobs = append(jobs, qless.JobSpec{Klass: "SendNewsletter", Data: map[string]int{"customer": 4100 + i}})
	}
	_, err = batch.Add(ctx, "newsletter", jobs)
	e.must(err)
	e.must(batch.Commit(ctx))
}

// workers runs jobs that last until the test ends.
func (e *example) workers() {
	started := make(chan struct{}, 100)
	expected := 0
	for _, one := range []struct {
		name   string
		queues []string
		slots  int
		runs   int
	}{
		{"shop-1", []string{"mail", "newsletter"}, 8, 8},
		{"shop-2", []string{"images", "catalog"}, 6, 4},
		{"shop-3", []string{"billing", "shipping", "packing", "checkout"}, 4, 3},
	} {
		config := qless.WorkerConfig{
			Name: one.name, Queues: one.queues, Concurrency: one.slots, Prefetch: -1, ShutdownTimeout: -1,
		}
		if one.name == "shop-1" {
			config.Schedules = schedules
		}
		client, err := qless.New(e.b.rdb, &qless.ClientConfig{Logger: testkit.Quiet()})
		e.must(err)
		worker, err := qless.NewWorker(client, config)
		e.must(err)
		worker.Handle("*", func(ctx context.Context, job *qless.Job) error {
			if job.Klass == "Resize" {
				_ = job.SetProgress(ctx, 3, 8, "thumbnails")
			}
			started <- struct{}{}
			<-ctx.Done()
			return context.Cause(ctx)
		})
		e.must(worker.Start(context.WithoutCancel(e.t.Context())))
		e.t.Cleanup(func() { _ = worker.Stop(context.Background()) })
		expected += one.runs
	}
	for range expected {
		testkit.Soon(e.t, "the start of a job", started)
	}
}

// schedules are never due while a test runs.
var schedules = []qless.Schedule{
	{ID: "digests", When: "CRON_TZ=Europe/Berlin 30 6 * * 1-5", Queue: "digests",
		Job: qless.JobSpec{Klass: "SendDigests"}},
	{ID: "close-the-month", When: "0 2 1 * *", Queue: "billing", Job: qless.JobSpec{Klass: "CloseMonth"}},
}
