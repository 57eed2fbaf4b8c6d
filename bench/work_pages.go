package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/web"
)

// A pageLoad is a namespace with a lot of everything, for the dashboard to show.
type pageLoad struct {
	*bench
	client *qless.Client
	rdb    *redis.Client
	names  []string // names of queues
	groups int      // failure groups
	next   int      // the number of the next job
}

// put puts jobs of one of load.lua's kinds.
func (l *pageLoad) put(ctx context.Context, kind, queue, group string, jobs int) error {
	first := l.next
	l.next += jobs
	return loadJobs(ctx, l.rdb, kind, queue, group, string(data), "", first, jobs)
}

// fillQueues puts a quarter of the jobs each as waiting, scheduled, completed and failed ones. The
// first queue gets half of the waiting and of the scheduled jobs.
func (l *pageLoad) fillQueues(ctx context.Context) error {
	quarter := l.jobs / 4
	err := l.client.Config().Set(ctx, "jobs-history-count", 2*l.jobs)
	for i, name := range l.names {
		live := quarter / 2 / len(l.names)
		if i == 0 {
			live += quarter / 2
		}
		err = errors.Join(err, l.put(ctx, "waiting", name, "", live),
			l.put(ctx, "scheduled", name, "", live),
			l.put(ctx, "completed", name, "", quarter/len(l.names)))
	}
	for i := range l.groups {
		name := l.names[i%len(l.names)]
		err = errors.Join(err, l.put(ctx, "failed", name, groupNo(i), quarter/l.groups))
	}
	return err
}

func groupNo(i int) string { return fmt.Sprintf("group-%05d", i) }

// fillRates writes the rates of three hours, like workers.
func (l *pageLoad) fillRates(ctx context.Context) error {
	var fields []any
	for _, name := range l.names {
		fields = append(fields, fmt.Sprintf("%d:%s:%s", len(name), name, klass),
			"7,1,2|20:3 21:4 22:2 30:1|10:1 12:5 13:3 25:1")
	}
	for minute := range 180 {
		at := time.Now().Add(-time.Duration(minute) * time.Minute).Truncate(time.Minute)
		if err := l.rdb.HSet(ctx, fmt.Sprint("ql:x:rates:", at.Unix()), fields...).Err(); err != nil {
			return err
		}
	}
	return nil
}

// fillOthers puts jobs and objects that are usually less numerous.
func (l *pageLoad) fillOthers(ctx context.Context) error {
	queue, err := l.client.Queue("others"), error(nil)
	for i := range min(200, l.jobs) {
		_, failed := l.client.NewBatch(ctx, queue.Name(), qless.JobSpec{Klass: klass, Data: data})
		err = errors.Join(err, failed, errOf(queue.Recur(ctx, klass, data, time.Hour,
			qless.JID(fmt.Sprint("recurring-", i)), qless.Offset(time.Hour))))
	}
	options := append(everything(0), qless.JID("job"), qless.Limits{"limit"})
	return errors.Join(err, errOf(fill(ctx, queue, min(1000, l.jobs), everything)),
		l.client.Limit("limit").Set(ctx, qless.LimitConfig{Concurrency: l.workers}),
		errOf(queue.Put(ctx, klass, data, options...)))
}

// employ hires workers that each run a job until the context ends.
func (l *pageLoad) employ(ctx context.Context) (*crowd, error) {
	running := make(chan struct{}, l.workers)
	f := fleet{workers: l.workers, clients: 1, queues: []string{"running"}}
	config := qless.WorkerConfig{Concurrency: 1, PollInterval: never}
	c, err := hire(ctx, l.server, f, config, func(context.Context, *qless.Job) error {
		running <- struct{}{}
		<-ctx.Done()
		return nil
	})
	if err != nil {
		return nil, err
	}
	_, err = fill(ctx, l.client.Queue("running"), l.workers, none)
	return c, errors.Join(err, until(ctx, "workers that work", time.Millisecond, func() (bool, error) {
		return len(running) == l.workers, nil
	}))
}

// paths returns the path of each page.
func (l *pageLoad) paths() []string {
	queue, group := "/queues/"+url.PathEscape(l.names[0]), "/failures/"+groupNo(0)
	return []string{
		"/", "/queues", "/queues?sort=-waiting", queue, queue + "?list=scheduled", queue + "?data=none",
		queue + "/why", "/jobs/job", "/jobs/job/graph", "/find?q=none", "/failures", group,
		"/klasses", "/klasses?over=3h", "/klasses/" + klass, "/workers", "/recurring",
		"/recurring/recurring-0", "/schedules", "/limits", "/limits/limit", "/tracked", "/completed",
		"/tags", "/tags/red", "/batches", "/unique", "/doctor", "/server", "/settings", "/activity",
	}
}

// slowestPage is the longest that a page may occupy the server, in milliseconds, to load without a
// noticeable delay.
const slowestPage = 100

// pages measures each page of the dashboard with -jobs, -queues and -workers.
func pages(ctx context.Context, b *bench, r *report) (failed error) {
	l := &pageLoad{
		bench: b, rdb: b.server.dial(0), names: queueNames(b.queues), groups: max(1, b.jobs/100),
	}
	defer func() { failed = errors.Join(failed, l.rdb.Close()) }()
	var err error
	l.client, err = qless.New(l.rdb, &qless.ClientConfig{Logger: slog.New(slog.DiscardHandler)})
	if err == nil {
		err = errors.Join(l.fillQueues(ctx), l.fillRates(ctx), l.fillOthers(ctx))
	}
	if err != nil {
		return err
	}
	working, end := context.WithCancel(ctx)
	c, err := l.employ(working)
	if c != nil {
		defer func() { failed = errors.Join(failed, c.dismiss()) }()
	}
	defer end()
	if err != nil {
		return err
	}
	for attempt := range 2 { // the first attempt loads scripts
		if err := l.look(ctx, r, attempt > 0); err != nil {
			return err
		}
	}
	return nil
}

// look measures each page twice: when it is first opened, and when it is updated.
func (l *pageLoad) look(ctx context.Context, r *report, counts bool) (failed error) {
	paths := l.paths()
	desks := make([]*web.Handler, len(paths))
	for i, path := range paths {
		desk, err := web.New(web.Options{}, web.Source{Client: l.client, Redis: l.rdb})
		if err != nil {
			return err
		}
		defer desk.Close()
		desks[i] = desk
		size, first, err := l.get(ctx, desk, path)
		if err != nil {
			return err
		}
		if !counts {
			continue
		}
		r.in("%s", path)
		r.bound("HTML", float64(size)/1e3, "kB", 100)
		r.add("commands", float64(first.Commands), "")
		r.bound("server CPU", ms(first.CPU), "ms", slowestPage)
		r.bound("longest call", ms(first.longest), "ms", longestStep)
		r.add("elapsed", ms(first.elapsed), "ms")
	}
	if !counts {
		return nil
	}
	if err := pause(ctx, 2*time.Second); err != nil { // pages are cached for a while
		return err
	}
	for i, path := range paths {
		_, next, err := l.get(ctx, desks[i], path)
		if err != nil {
			return err
		}
		r.in("%s", path)
		r.bound("server CPU of an update", ms(next.CPU), "ms", slowestPage)
	}
	return nil
}

// get returns the size of a page in bytes, and its cost to the server.
func (l *pageLoad) get(ctx context.Context, desk *web.Handler, path string) (int, cost, error) {
	request := httptest.NewRequestWithContext(ctx, http.MethodGet, path, nil)
	got := httptest.NewRecorder()
	c, err := l.server.measure(ctx, func() error {
		desk.ServeHTTP(got, request)
		return expect(got.Code, http.StatusOK)
	})
	if err != nil {
		err = fmt.Errorf("%s: %w", path, err)
	}
	return got.Body.Len(), c, err
}
