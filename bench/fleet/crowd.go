package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/bench/internal/info"
)

// patience is how long things may take to happen: far longer than they need.
const patience = 3 * time.Minute

// never is a PollInterval within which nothing is polled.
const never = 50 * time.Minute

// A crowd is many workers in this process, on some clients.
type crowd struct {
	server   *server
	rdbs     []*redis.Client
	clients  []*qless.Client
	workers  []*qless.Worker
	reserves atomic.Int64 // calls that asked for jobs
	lines    lineCounter
}

// newCrowd returns one with clients but without workers.
func newCrowd(s *server, clients int, config qless.ClientConfig) (*crowd, error) {
	c := &crowd{server: s}
	for range clients {
		c.rdbs = append(c.rdbs, s.dial())
		if err := c.connect(c.rdbs[len(c.rdbs)-1], config); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// connect adds a client that uses a connection pool.
func (c *crowd) connect(rdb *redis.Client, config qless.ClientConfig) error {
	config.Logger, config.Observer = slog.New(&c.lines), c.observe
	client, err := qless.New(rdb, &config)
	c.clients = append(c.clients, client)
	return err
}

func (c *crowd) observe(_ context.Context, call qless.Call) {
	if call.Command == "reserve" {
		c.reserves.Add(1)
	}
}

// hire returns a crowd of workers with the same configuration and handler, started and settled, or
// an error, after which there are none. A number of 0 clients means one for each worker.
func hire(
	ctx context.Context, s *server, workers, clients int, config qless.WorkerConfig,
	handler qless.Handler,
) (*crowd, error) {
	if clients == 0 {
		clients = workers
	}
	if err := checkFiles(workers, clients); err != nil {
		return nil, err
	}
	c, err := newCrowd(s, clients, qless.ClientConfig{})
	if err != nil {
		return nil, err
	}
	for i := range workers {
		w, err := qless.NewWorker(c.clients[i%clients], config)
		if err != nil {
			return nil, errors.Join(err, c.dismiss())
		}
		w.Handle("*", handler)
		c.workers = append(c.workers, w)
	}
	if err := c.start(ctx); err != nil {
		return nil, errors.Join(err, c.dismiss())
	}
	return c, nil
}

func (c *crowd) start(ctx context.Context) error {
	for _, w := range c.workers {
		if err := w.Start(ctx); err != nil {
			return err
		}
	}
	return c.settle(ctx)
}

// settle returns when all workers are idle and have subscribed to what wakes them, each to a
// channel of its own, and for a while no more channels have come.
func (c *crowd) settle(ctx context.Context) error {
	steady, channels := 0, 0
	return until(ctx, "idle workers", 25*time.Millisecond, func() (bool, error) {
		if !c.isIdle() {
			steady = 0
			return false, nil
		}
		text, err := c.server.admin.Info(ctx, "stats").Result()
		if err != nil {
			return false, nil // the server is about to return
		}
		now, err := strconv.Atoi(info.Field(text, "pubsub_channels"))
		if now != channels || now < len(c.workers) {
			channels, steady = now, 0
		}
		steady++
		return steady >= 8, err
	})
}

// rest returns when all workers are idle.
func (c *crowd) rest(ctx context.Context) error {
	return until(ctx, "idle workers", time.Millisecond, func() (bool, error) {
		return c.isIdle(), nil
	})
}

func (c *crowd) isIdle() bool {
	for _, w := range c.workers {
		if !w.Stats().Idle {
			return false
		}
	}
	return true
}

// dismiss stops the workers and closes the clients.
func (c *crowd) dismiss() error {
	failed := each(c.workers, func(w *qless.Worker) error { return w.Stop(context.Background()) })
	return errors.Join(failed, c.disconnect())
}

// kill has the workers gone without a word to the server: their connections are closed first.
func (c *crowd) kill() error {
	failed := c.disconnect()
	_ = each(c.workers, func(w *qless.Worker) error { return w.Stop(context.Background()) })
	return failed
}

func (c *crowd) disconnect() error {
	return each(c.rdbs, (*redis.Client).Close)
}

// each calls do for all items at once, and returns the first error.
func each[T any](items []T, do func(T) error) error {
	var (
		group  sync.WaitGroup
		once   sync.Once
		failed error
	)
	for _, item := range items {
		group.Go(func() {
			if err := do(item); err != nil {
				once.Do(func() { failed = err })
			}
		})
	}
	group.Wait()
	return failed
}

// until returns when a condition holds, for which it looks again and again.
func until(
	ctx context.Context, what string, again time.Duration, holds func() (bool, error),
) error {
	ticker := time.NewTicker(again)
	defer ticker.Stop()
	timeout := time.After(patience)
	for {
		if ok, err := holds(); ok || err != nil {
			return err
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return ctx.Err()
		case <-timeout:
			return fmt.Errorf("waited %s for %s", patience, what)
		}
	}
}

// pause waits, for something to be measured meanwhile.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// sharing says in words how many clients there are for a number of workers, or of other things.
func sharing(things, clients int, thing string) string {
	switch clients {
	case 0:
		return fmt.Sprintf("%d %ss, a client each", things, thing)
	case 1:
		return fmt.Sprintf("%d %ss on 1 client", things, thing)
	}
	return fmt.Sprintf("%d %ss on %d clients", things, thing, clients)
}

// lineCounter counts the lines of a log, from warnings on.
type lineCounter struct{ count atomic.Int64 }

func (l *lineCounter) Enabled(_ context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn
}

func (l *lineCounter) Handle(context.Context, slog.Record) error {
	l.count.Add(1)
	return nil
}

func (l *lineCounter) WithAttrs([]slog.Attr) slog.Handler { return l }
func (l *lineCounter) WithGroup(string) slog.Handler      { return l }
