package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
)

// legs are the parts of a soak. After each, all jobs are done and everything is measured. What
// grows from the middle to the end grows for ever.
const legs = 4

// soaking is a soak under way.
type soaking struct {
	o      *options
	s      *server
	jobs   *mix
	putter *crowd // has no workers
	fleet  *crowd
	put    atomic.Int64
}

// soak works at a steady rate with jobs of all kinds, while workers and subscribers come and go,
// and fails if something grows that should not, or if jobs do not end.
func soak(ctx context.Context, o *options, r *report) (failed error) {
	if o.endure > 0 {
		return endure(ctx, o, r)
	}
	s, err := startServer(ctx, o)
	if err != nil {
		return err
	}
	defer s.stop()
	goroutines := inUse().goroutines
	k, err := newSoaking(ctx, o, s)
	if err != nil {
		return err
	}
	var sizes [legs]size
	for leg := range sizes {
		from := k.put.Load()
		if err := k.leg(ctx); err != nil {
			return errors.Join(err, k.end())
		}
		if sizes[leg], err = sizeOf(ctx, s); err != nil {
			return errors.Join(err, k.end())
		}
		r.in("part %d of %d, %s", leg+1, legs, (o.duration / legs).Round(time.Millisecond))
		r.add("jobs", float64(k.put.Load()-from)/(o.duration/legs).Seconds(), "a second")
		for _, limit := range growthLimits(size{}, 0) {
			r.add(limit.name, sizes[leg][limit.name], limit.unit)
		}
	}
	r.in("growth, from part %d to part %d", legs/2, legs)
	failed = growth(r, sizes[legs/2-1], sizes[legs-1], o.duration/2)
	if err := k.end(); err != nil {
		return errors.Join(failed, err)
	}
	return errors.Join(failed, until(ctx, "goroutines to end", time.Millisecond, func() (bool, error) {
		return inUse().goroutines <= goroutines, nil
	}))
}

func newSoaking(ctx context.Context, o *options, s *server) (*soaking, error) {
	putter, err := newCrowd(s, 1, qless.ClientConfig{})
	if err != nil {
		return nil, err
	}
	client := putter.clients[0]
	k := &soaking{o: o, s: s, putter: putter, jobs: newMix(client, o.rate)}
	err = errors.Join(
		client.Config().Set(ctx, qless.ConfigJobsHistoryCount, 10), // which part 1 fills
		client.Limit("soak").Set(ctx, qless.LimitConfig{Concurrency: 5}),
	)
	if err == nil {
		k.fleet, err = hire(ctx, s, 4, 2, k.config("soak-*"), k.jobs.handle)
	}
	if err != nil {
		return nil, errors.Join(err, putter.dismiss())
	}
	return k, nil
}

func (k *soaking) config(queues ...string) qless.WorkerConfig {
	return qless.WorkerConfig{
		Queues: queues, PollInterval: k.o.poll, Order: qless.OrderRoundRobin,
		Backoff: qless.ExponentialBackoff(10*time.Millisecond, 10*time.Millisecond),
	}
}

func (k *soaking) end() error { return errors.Join(k.fleet.dismiss(), k.putter.dismiss()) }

// leg works for a while, and returns when there are no more jobs.
func (k *soaking) leg(ctx context.Context) error {
	client := k.putter.clients[0]
	jid, err := client.Queue(mixQueues[0]).Recur(ctx, klassRecurs, data, 200*time.Millisecond)
	if err != nil {
		return err
	}
	during, stop := context.WithTimeout(ctx, k.o.duration/legs)
	defer stop()
	if err := k.keepBusy(during); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	recurring, err := client.RecurringJob(ctx, jid)
	if err != nil {
		return err
	}
	if err := recurring.Cancel(ctx); err != nil {
		return err
	}
	for _, name := range mixQueues {
		if err := drained(ctx, client.Queue(name)); err != nil {
			return err
		}
	}
	if left := len(k.jobs.underWay); left > 0 {
		return fmt.Errorf("%d jobs have not ended, and are not on the server", left)
	}
	return errors.Join(k.clean(ctx), k.fleet.settle(ctx))
}

// keepBusy puts jobs, and has workers and subscribers come and go, until the context ends.
func (k *soaking) keepBusy(ctx context.Context) error {
	var (
		group sync.WaitGroup
		mu    sync.Mutex
		all   error
	)
	tasks := []func(context.Context) error{k.visit}
	for range putters {
		tasks = append(tasks, k.keepPutting)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	for _, task := range tasks {
		group.Go(func() {
			if err := task(ctx); err != nil {
				stop()
				mu.Lock()
				defer mu.Unlock()
				all = errors.Join(all, err)
			}
		})
	}
	group.Wait()
	return all
}

// keepPutting puts the share of one of the putters.
func (k *soaking) keepPutting(ctx context.Context) error {
	ticker := time.NewTicker(time.Second * putters / time.Duration(k.o.rate))
	defer ticker.Stop()
	for last := ""; ; {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
		var err error
		if last, err = k.jobs.put(ctx, int(k.put.Add(1)), last); err != nil {
			return err
		}
	}
}

// visit has a worker and a subscriber come and go, again and again, and lists what a dashboard
// does.
func (k *soaking) visit(ctx context.Context) error {
	client := k.putter.clients[0]
	for pause(ctx, min(time.Second, k.o.duration/40)) == nil {
		listening, leave := context.WithCancel(context.WithoutCancel(ctx))
		if _, err := client.Events(listening); err != nil {
			leave()
			return err
		}
		guest, err := hire(context.WithoutCancel(ctx), k.s, 1, 1, k.config(mixQueues[1]), k.jobs.handle)
		if err != nil {
			leave()
			return err
		}
		_, listed := inspect.New(client).Overview(context.WithoutCancel(ctx), inspect.OverviewQuery{})
		leave()
		if err := errors.Join(listed, guest.dismiss()); err != nil {
			return err
		}
		if err := k.clean(context.WithoutCancel(ctx)); err != nil {
			return err
		}
	}
	return nil
}

// clean deletes the failed jobs, and what only a sweep comes across.
func (k *soaking) clean(ctx context.Context) error {
	client := k.putter.clients[0]
	for _, group := range mixGroups {
		if _, err := inspect.New(client).Failed(group).Cancel(ctx); err != nil {
			return err
		}
	}
	for {
		if swept, err := client.Sweep(ctx, "*"); swept == 0 || err != nil {
			return err
		}
	}
}
