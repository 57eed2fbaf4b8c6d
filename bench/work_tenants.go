package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/qless/qless-go"
)

// tenants measures a process that works many namespaces.
func tenants(ctx context.Context, o *options, r *report, s *server, clients int) error {
	before := inUse()
	var (
		c     *crowd
		ended atomic.Int64
		count = float64(o.tenants)
	)
	start, err := s.measure(ctx, func() (err error) {
		c, err = hireForTenants(ctx, o, s, clients, func(context.Context, *qless.Job) error {
			ended.Add(1)
			return nil
		})
		return err
	})
	if err != nil {
		return err
	}
	heap, _, goroutines := inUse().since(before)
	r.add("until all are idle", start.elapsed.Seconds(), "s")
	r.add("connections a tenant", float64(start.Connections)/count, "")
	r.add("goroutines a tenant", goroutines/count, "")
	r.add("heap a tenant", heap/count, "KB")
	r.add("server memory a tenant", float64(start.Memory)/count/1e3, "KB")
	rest, err := s.measure(ctx, func() error { return pause(ctx, o.poll) })
	if err != nil {
		return err
	}
	r.add("server CPU, idle", rest.core(), "% of a core")
	burst, err := s.measure(ctx, func() error {
		err := each(c.clients, func(client *qless.Client) error {
			_, err := client.Queue("work").Put(ctx, klass, data)
			return err
		})
		return errors.Join(err, until(ctx, "a job of each", time.Millisecond, func() (bool, error) {
			return ended.Load() == int64(o.tenants), nil
		}), c.rest(ctx))
	})
	if err != nil {
		return err
	}
	r.add("a job in each, until all are done", ms(burst.elapsed), "ms")
	r.add("a job in each, commands a job", float64(burst.Commands)/count, "")
	r.add("a job in each, server CPU a job", us(burst.CPU)/count, "us")
	stop, err := s.measure(ctx, c.dismiss)
	if err != nil {
		return err
	}
	r.add("until all have stopped", stop.elapsed.Seconds(), "s")
	return until(ctx, "the goroutines of tenants to end", time.Millisecond, func() (bool, error) {
		_, _, left := inUse().since(before)
		return left <= 0, nil
	})
}

// hireForTenants starts a group with a worker for each namespace.
func hireForTenants(
	ctx context.Context, o *options, s *server, clients int, handler qless.Handler,
) (*crowd, error) {
	own := clients
	if own == 0 {
		own = o.tenants
	}
	if err := checkFiles(o.tenants, own); err != nil {
		return nil, err
	}
	c, err := newCrowd(s, 0, qless.ClientConfig{})
	if err != nil {
		return nil, err
	}
	for i := range o.tenants {
		if i < own {
			c.rdbs = append(c.rdbs, s.dial(0))
		}
		rdb := c.rdbs[i%len(c.rdbs)]
		namespace := fmt.Sprintf("tenant-%04d:ql:", i)
		if err := c.connect(rdb, qless.ClientConfig{Namespace: namespace}); err != nil {
			return nil, err
		}
	}
	group, err := qless.NewWorkerGroup(c.clients, qless.WorkerConfig{
		Queues: []string{"work"}, PollInterval: o.poll,
	})
	if err != nil {
		return nil, err
	}
	group.Handle("*", handler)
	c.workers = group
	if err := c.start(ctx); err != nil {
		return nil, errors.Join(err, c.dismiss())
	}
	return c, nil
}
