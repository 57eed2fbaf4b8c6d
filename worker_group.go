package qless

import (
	"context"
	"slices"

	"github.com/redis/go-redis/v9"
)

// A WorkerGroup is a worker for several namespaces, such as those of [Shards] or of tenants. It has
// one [Worker] for each, with the same handlers, and starts and stops them together.
type WorkerGroup struct {
	workers []*Worker
}

// NewWorkerGroup returns a group with one worker for each client. Each has the whole config, so the
// group runs up to Concurrency jobs of each namespace at once. The workers of clients that share a
// go-redis client of a single server share one subscription. Each of the Schedules is followed in
// one of the namespaces, chosen by its ID. If the configuration is invalid or there are no clients,
// the error is [ErrInvalid]. NewWorkerGroup panics if a client is nil.
func NewWorkerGroup(clients []*Client, config WorkerConfig) (*WorkerGroup, error) {
	if len(clients) == 0 {
		return nil, invalid("work", "", "no clients")
	}
	if slices.Contains(clients, nil) {
		panic("qless: NewWorkerGroup: nil client")
	}
	g, hubs := &WorkerGroup{}, sharedHubs{}
	shards := Shards{key: ShardByQueue, clients: clients}
	for _, c := range clients {
		own := config
		own.Schedules = slices.DeleteFunc(slices.Clone(config.Schedules), func(s Schedule) bool {
			return shards.ClientFor(s.ID, "") != c
		})
		w, err := newWorker(c, hubs.of(c), own)
		if err != nil {
			return nil, err
		}
		g.workers = append(g.workers, w)
	}
	return g, nil
}

// sharedHubs are the hubs of clients that share a go-redis client. On a cluster there are none, as
// namespaces may be on different servers.
type sharedHubs map[*redis.Client]*hub

// of returns the hub for a client's worker.
func (h sharedHubs) of(c *Client) *hub {
	rdb, single := c.rdb.(*redis.Client)
	if !single {
		return c.hub
	}
	if h[rdb] == nil {
		h[rdb] = c.hub
	}
	return h[rdb]
}

// Workers returns the workers, in the order of their clients.
func (g *WorkerGroup) Workers() []*Worker { return slices.Clone(g.workers) }

// Handle registers a handler with each worker, as [Worker.Handle] does.
func (g *WorkerGroup) Handle(klass string, handler Handler, options ...HandleOption) {
	for _, w := range g.workers {
		w.Handle(klass, handler, options...)
	}
}

// Use wraps the handlers of each worker, as [Worker.Use] does.
func (g *WorkerGroup) Use(middleware ...Middleware) {
	for _, w := range g.workers {
		w.Use(middleware...)
	}
}

// Run starts the workers and blocks until all have stopped, because the context has ended or
// [WorkerGroup.Stop] or [WorkerGroup.Drain] was called. It returns the error of [WorkerGroup.Start]
// or Stop.
func (g *WorkerGroup) Run(ctx context.Context) error {
	if err := g.Start(ctx); err != nil {
		return err
	}
	return each(g.workers, (*Worker).wait)
}

// Start starts the workers and returns at once, as [Worker.Start] does. If one can't be
// started, none is left running.
func (g *WorkerGroup) Start(ctx context.Context) error {
	for i, w := range g.workers {
		if err := w.Start(ctx); err != nil {
			started := WorkerGroup{workers: g.workers[:i]}
			_ = started.Stop(ctx)
			return err
		}
	}
	return nil
}

// Stop stops all workers at once, each as [Worker.Stop] does. It returns the first error, in
// the order of the clients.
func (g *WorkerGroup) Stop(ctx context.Context) error {
	return each(g.workers, func(w *Worker) error { return w.Stop(ctx) })
}

// Drain drains all workers at once, each as [Worker.Drain] does. It returns the first error, in
// the order of the clients.
func (g *WorkerGroup) Drain(ctx context.Context) error {
	return each(g.workers, func(w *Worker) error { return w.Drain(ctx) })
}

// Healthy returns nil if all workers are healthy, see [Worker.Healthy], and the first error
// otherwise.
func (g *WorkerGroup) Healthy() error {
	return each(g.workers, (*Worker).Healthy)
}
