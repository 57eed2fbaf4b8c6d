package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"time"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/events"
	"github.com/qless/qless-go/lease"
)

// Klasses of jobs that do more than complete.
const (
	klassAgain  = "again"
	klassFails  = "fails"
	klassNext   = "next"
	klassPanics = "panics"
	klassRecurs = "recurs"
	klassResult = "result"
	klassSlow   = "slow" // runs longer than its lock lasts
	klassSnooze = "snooze"
)

// soakLimits are the limits used by jobs.
var soakLimits = map[string]qless.LimitConfig{
	"soak":      {Concurrency: 3},
	"soak-rate": {Concurrency: 5, Rate: 20, Per: time.Second},
}

// with returns the options of a job, given its number and the jid of the last job.
type with func(i int, last string) []qless.PutOption

func always(options ...qless.PutOption) with {
	return func(int, string) []qless.PutOption { return options }
}

// soakJobs are the kinds of jobs, put in turn.
var soakJobs = []struct {
	klass   string
	options with
}{
	{klass, always()},
	{klassAgain, always()},
	{klassNext, always()},
	{klassResult, always()},
	{klassSnooze, always()},
	{klassSlow, always(qless.LockTime(500*time.Millisecond), qless.Retries(200))},
	{klassFails, always(qless.KeepFailedFor(5 * time.Second))},
	{klassPanics, always(qless.KeepFailedFor(0))},
	{klass, always(qless.Delay(200*time.Millisecond), qless.Tags{"tag"}, qless.Priority(3))},
	{klass, func(_ int, last string) []qless.PutOption {
		return []qless.PutOption{qless.DependsOn{last}, qless.OnFailureRun}
	}},
	{klass, func(_ int, last string) []qless.PutOption {
		return []qless.PutOption{qless.DependsOn{last}, qless.OnFailureFail, qless.KeepFailedFor(0)}
	}},
	{klass, func(i int, _ string) []qless.PutOption {
		return []qless.PutOption{qless.Unique("replace", i%20).Replace(), qless.Delay(time.Second)}
	}},
	{klass, func(i int, _ string) []qless.PutOption {
		return []qless.PutOption{qless.Unique("for", i%50).For(5 * time.Second)}
	}},
	{klass, func(i int, _ string) []qless.PutOption {
		return []qless.PutOption{qless.Unique("new", i), qless.KeepFor(100 * time.Millisecond)}
	}},
	{klass, always(qless.Limits{"soak"}, qless.Headers{"number": "one"})},
	{klass, always(qless.Limits{"soak-rate"}, qless.MaxRunTime(time.Minute))},
	{klass, always(qless.StartBy(10*time.Second), qless.TTL(10*time.Second))},
	{klass, func(i int, _ string) []qless.PutOption {
		return []qless.PutOption{qless.Fair(string(rune('a'+i%10)), qless.Weight(float64(1+i%3)))}
	}},
}

// soakWorker returns a worker for the jobs of the mix. The worker also puts scheduled jobs.
func soakWorker(client *qless.Client) (*qless.Worker, error) {
	w, err := qless.NewWorker(client, qless.WorkerConfig{
		Queues: []string{"soak-*", "!soak-received"}, Order: qless.OrderRoundRobin,
		PollInterval: 2 * time.Second,
		Backoff:      qless.ExponentialBackoff(100*time.Millisecond, 100*time.Millisecond),
		Schedules: []qless.Schedule{
			{ID: "soak-every", When: "@every 2s", Queue: "soak-b",
				Job: qless.NewKlass[any](klassRecurs).Spec(nil, qless.Unique("schedule").Replace())},
		},
	})
	if err == nil {
		w.Handle("*", soakHandler)
	}
	return w, err
}

// soakHandler depends only on the job, because another process may have run the job before.
func soakHandler(ctx context.Context, job *qless.Job) error {
	switch job.Klass {
	case klassAgain:
		if job.Remaining == job.Retries {
			return errors.New("another time")
		}
	case klassSnooze:
		if rand.IntN(2) == 0 {
			return qless.Snooze(100 * time.Millisecond)
		}
	case klassNext:
		if job.Queue != "soak-next" {
			return qless.Next("soak-next")
		}
	case klassFails:
		return qless.FailWith("failed", errors.New("it failed"))
	case klassPanics:
		panic("it failed")
	case klassResult:
		return job.SetResult(job.JID)
	case klassSlow:
		for done := range 10 {
			if err := pause(ctx, 100*time.Millisecond); err != nil {
				return err
			}
			if err := job.SetProgress(ctx, done+1, 10, "slow"); err != nil {
				return err
			}
		}
	}
	return nil
}

// startTasks starts the gateways with the dashboard, and all tasks that put, take and read jobs.
func (e *endurance) startTasks(ctx context.Context) error {
	addrs, err := freeAddrs(4)
	if err != nil {
		return err
	}
	e.metrics = addrs[3]
	e.gateways, err = startProcess(e.programs.qless, "serve", "--redis", "redis://"+e.server.addr(),
		"--skip-tokens", "--lmstfy", addrs[0], "--workq", addrs[1], "--web", addrs[2],
		"--metrics", e.metrics, "--log-level", "warn")
	if err != nil {
		return err
	}
	err = e.gateways.ready(ctx, func() (bool, error) {
		_, err := get(ctx, e.metrics, "/readyz")
		return err == nil, nil
	})
	if err != nil {
		return err
	}
	last := ""
	e.every(soakRate/2, func(i int) (err error) { last, err = e.putOne(i, last); return err })
	e.every(soakRate/20, e.putOthers)
	e.every(1, func(int) error { return e.clean(e.working) })
	e.again(e.receive)
	for i, dial := range []func(string) (gatewayClient, error){dialLmstfy, dialWorkq} {
		g := &gateway{addr: addrs[i], dial: dial}
		e.again(func() error { return g.together(1, e.putForeign) })
		for range 2 {
			e.again(func() error { return g.together(1, e.takeForeign) })
		}
	}
	e.again(func() error { return e.readEvents(5 * time.Second) })
	for i, page := range []string{"/", "/queues", "/failures", "/workers", "/limits", "/schedules"} {
		e.again(func() error {
			brief, cancel := context.WithTimeout(e.working, time.Duration(5+i)*time.Second)
			defer cancel()
			_, err := get(brief, addrs[2], page)
			_, _ = get(brief, addrs[2], "/live?page="+url.QueryEscape(page)) // until the time is over
			return err
		})
	}
	return nil
}

// every calls do at a rate per second while jobs are put, with the number of the call. It does not
// catch up on late calls.
func (e *endurance) every(rate float64, do func(i int) error) {
	e.tasks.Go(func() {
		ticker := time.NewTicker(time.Duration(float64(time.Second) / rate))
		defer ticker.Stop()
		for i := 0; e.putting.Err() == nil; i++ {
			select {
			case <-ticker.C:
				e.note(do(i))
			case <-e.putting.Done():
			}
		}
	})
}

// again calls do repeatedly.
func (e *endurance) again(do func() error) {
	e.tasks.Go(func() {
		for e.working.Err() == nil {
			e.note(do())
			_ = pause(e.working, 10*time.Millisecond)
		}
	})
}

// note records an error, unless the work is over.
func (e *endurance) note(err error) {
	if e.working.Err() == nil {
		e.odd(err)
	}
}

// putOne puts a job of the mix, perhaps dependent on the last job, and returns its jid.
func (e *endurance) putOne(i int, last string) (string, error) {
	if last == "" {
		return e.client.Queue("soak-a").Put(e.working, klass, data)
	}
	kind := soakJobs[i%len(soakJobs)]
	queue := e.client.Queue([]string{"soak-a", "soak-b"}[i%2])
	jid, err := queue.Put(e.working, kind.klass, data, kind.options(i, last)...)
	if errors.Is(err, qless.ErrExists) {
		return last, nil
	}
	if err != nil {
		return last, fmt.Errorf("put of %s: %w", kind.klass, err)
	}
	return jid, nil
}

// putOthers puts jobs of other kinds: called, received, never taken and canceled jobs, some with
// the same key, and a batch.
func (e *endurance) putOthers(i int) error {
	ctx := e.working
	_, failed := e.client.Queue("soak-a").Call(ctx, klassResult, data, qless.KeepFor(time.Second))
	_, err := e.client.Queue("soak-received").Put(ctx, klass, data, qless.LockTime(2*time.Second))
	failed = errors.Join(failed, err)
	_, err = e.client.Queue("nobody").Put(ctx, klass, data, qless.TTL(2*time.Second), qless.Unique(i))
	failed = errors.Join(failed, err)
	jid, err := e.client.Queue("soak-b").Put(ctx, klass, data, qless.Delay(time.Hour), qless.Fair("a"))
	if err = errors.Join(failed, err); err != nil {
		return err
	}
	specs := make([]qless.JobSpec, 4)
	for j := range specs {
		specs[j] = qless.NewKlass[any](klass).Spec(data,
			qless.Unique("many", i%10, j/2).Replace().Within(2*time.Second), qless.Delay(time.Second),
		)
	}
	_, err = e.client.Queue("soak-a").PutMany(ctx, specs)
	batch, failed := e.client.NewBatch(ctx, "soak-b", qless.JobSpec{Klass: klass, Data: data})
	if err = errors.Join(err, failed, e.client.Cancel(ctx, jid)); err != nil {
		return err
	}
	for j := range specs {
		specs[j].Options = nil
	}
	if _, err = batch.Add(ctx, "soak-a", specs); err == nil && i%5 == 4 {
		return batch.Cancel(ctx)
	}
	return errors.Join(err, batch.Commit(ctx))
}

// receive runs jobs without a worker.
func (e *endurance) receive() error {
	jobs, err := lease.New(e.client).Take(e.working, lease.Request{
		Queues: []string{"soak-received"}, Count: 10, PollInterval: 2 * time.Second,
	})
	for _, job := range jobs {
		if lost := job.Complete(e.working); !errors.Is(lost, qless.ErrLockLost) {
			err = errors.Join(err, lost)
		}
	}
	return err
}

// putForeign puts jobs through a gateway.
func (e *endurance) putForeign(c gatewayClient) error {
	for pause(e.putting, time.Second/10) == nil {
		if err := c.put("soak", 10*time.Second); err != nil {
			return err
		}
	}
	<-e.working.Done()
	return nil
}

// takeForeign takes some jobs through a gateway, and then reconnects.
func (e *endurance) takeForeign(c gatewayClient) error {
	for range 100 {
		id, err := c.take("soak")
		if err != nil || e.working.Err() != nil {
			return err
		}
		if id == "" {
			continue
		}
		if err := c.end("soak", id); err != nil {
			return err
		}
	}
	return nil
}

// readEvents reads events for a while.
func (e *endurance) readEvents(d time.Duration) error {
	ctx, cancel := context.WithTimeout(e.working, d)
	defer cancel()
	heard, err := events.Listen(ctx, e.client)
	if err != nil {
		return err
	}
	for range heard { // until the time is over
	}
	return nil
}

// get makes an HTTP request.
func get(ctx context.Context, addr, path string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+path, http.NoBody)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s to %s", response.Status, path)
	}
	return string(text), err
}
