package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/qless/qless-go"
)

// patience limits how long an event may take: far longer than necessary.
const patience = 3 * time.Minute

// A crowd is a set of many workers in this process, on some clients.
type crowd struct {
	server   *server
	rdbs     []*redis.Client
	clients  []*qless.Client
	workers  qless.WorkerGroup
	reserves atomic.Int64 // calls asking for jobs
	lines    lineCounter
}

// newCrowd returns a crowd with clients but without workers.
func newCrowd(s *server, clients int, config qless.ClientConfig) (*crowd, error) {
	c := &crowd{server: s}
	for range clients {
		c.rdbs = append(c.rdbs, s.dial(0))
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

func (c *crowd) observe(_ context.Context, call qless.Command) {
	if call.Name == "reserve" {
		c.reserves.Add(1)
	}
}

// hire starts the workers of a fleet with the same configuration and handler, and waits until they
// have settled. If it returns an error, no workers are left.
func hire(
	ctx context.Context, s *server, f fleet, config qless.WorkerConfig, handler qless.Handler,
) (*crowd, error) {
	clients := f.clients
	if clients == 0 {
		clients = f.workers
	}
	if err := checkFiles(f.workers, clients); err != nil {
		return nil, err
	}
	c, err := newCrowd(s, clients, qless.ClientConfig{})
	if err == nil {
		config.Queues = f.queues
		if err = c.add(f, config); err == nil {
			c.workers.Handle("*", handler)
			err = c.start(ctx)
		}
	}
	if err != nil {
		return nil, errors.Join(err, c.dismiss())
	}
	return c, nil
}

// add adds the workers of a fleet. Workers for tenants form a group.
func (c *crowd) add(f fleet, config qless.WorkerConfig) error {
	if !f.tenants {
		for i := range f.workers {
			w, err := qless.NewWorker(c.clients[i%len(c.clients)], config)
			if err != nil {
				return err
			}
			c.workers = append(c.workers, w)
		}
		return nil
	}
	c.clients = nil
	for i := range f.workers {
		namespace := qless.ClientConfig{Namespace: fmt.Sprintf("tenant-%04d:ql:", i)}
		if err := c.connect(c.rdbs[i%len(c.rdbs)], namespace); err != nil {
			return err
		}
	}
	group, err := qless.NewWorkerGroup(c.clients, config)
	c.workers = group
	return err
}

func (c *crowd) start(ctx context.Context) error {
	for _, w := range c.workers {
		if err := w.Start(ctx); err != nil {
			return err
		}
	}
	return c.settle(ctx)
}

// settle waits until all workers are idle and have subscribed to wake-ups, each on a separate
// channel, and the number of channels is stable for a while.
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
		now, err := strconv.Atoi(infoField(text, "pubsub_channels"))
		if now != channels || now < len(c.workers) {
			channels, steady = now, 0
		}
		steady++
		return steady >= 8, err
	})
}

// rest waits until all workers are idle.
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
	stop := func(w *qless.Worker) error { return w.Stop(context.Background()) }
	return errors.Join(each(c.workers, stop), each(c.rdbs, (*redis.Client).Close))
}

// parallel calls do the given number of times from several goroutines, with numbers from 0, until a
// call fails.
func parallel(goroutines, times int, do func(i int) error) error {
	var (
		next   atomic.Int64
		group  sync.WaitGroup
		mu     sync.Mutex
		failed error
	)
	for range min(goroutines, times) {
		group.Go(func() {
			for i := int(next.Add(1)) - 1; i < times; i = int(next.Add(1)) - 1 {
				if err := do(i); err != nil {
					next.Store(int64(times))
					mu.Lock()
					failed = errors.Join(failed, err)
					mu.Unlock()
					return
				}
			}
		})
	}
	group.Wait()
	return failed
}

// each calls do for all items concurrently.
func each[T any](items []T, do func(T) error) error {
	failed := make([]error, len(items))
	var group sync.WaitGroup
	for i, item := range items {
		group.Go(func() { failed[i] = do(item) })
	}
	group.Wait()
	return errors.Join(failed...)
}

// until polls until a condition holds.
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

// pause waits while something is being measured.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// lineCounter counts the lines of a log at level warning and above.
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

// memory is the memory use of this process.
type memory struct {
	heap, stacks uint64
	goroutines   int
}

// inUse returns the memory in use after a garbage collection.
func inUse() memory {
	runtime.GC()
	runtime.GC() // collects objects released by finalizers
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return memory{stats.HeapAlloc, stats.StackInuse, runtime.NumGoroutine()}
}

// since returns the growth since an earlier reading, in KB and goroutines.
func (m memory) since(before memory) (heap, stacks, goroutines float64) {
	return (float64(m.heap) - float64(before.heap)) / 1e3,
		(float64(m.stacks) - float64(before.stacks)) / 1e3,
		float64(m.goroutines - before.goroutines)
}

// checkFiles returns an error if this process may not open enough connections: one per worker for
// wake-ups, and at least two per client. Otherwise workers would retry forever.
func checkFiles(workers, clients int) error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return err
	}
	if need := uint64(workers + 2*clients + 100); need > limit.Cur {
		return fmt.Errorf("%d workers on %d clients need %d open files, and may have %d: see ulimit -n",
			workers, clients, need, limit.Cur)
	}
	return nil
}

// A fleet is a set of workers waiting for jobs.
type fleet struct {
	label   string
	workers int
	clients int // shared clients, or 0 for one each
	tenants bool
	queues  []string
}

// queueNames returns the names of queues.
func queueNames(count int) []string {
	all := make([]string, count)
	for i := range all {
		all[i] = fmt.Sprintf("queue-%05d", i)
	}
	return all
}

// longestStep is the longest allowed call on the server, in milliseconds.
const longestStep = 10
