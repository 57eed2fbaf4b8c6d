package qless

import (
	"context"
	"slices"
)

// A WorkerGroup is a worker for several namespaces, such as those of [Shards], or of tenants: one
// [Worker] each, with the same handlers, that are started and stopped together.
type WorkerGroup struct {
	workers []*Worker
}

// NewWorkerGroup returns a group of workers, one for each client. Each has the whole config, so the
// group works up to Concurrency jobs of each namespace at once. The Schedules are followed in
// one of the namespaces: each by the client that its id picks, as [NewShards] would for a jid.
func NewWorkerGroup(clients []*Client, config WorkerConfig) *WorkerGroup {
	g := &WorkerGroup{}
	shards := Shards{key: ShardByQueue, clients: clients}
	for _, c := range clients {
		own := config
		own.Schedules = slices.DeleteFunc(slices.Clone(config.Schedules), func(s *Schedule) bool {
			return shards.ClientFor(s.id, "") != c
		})
		g.workers = append(g.workers, NewWorker(c, own))
	}
	return g
}

// Workers returns the workers, in the order of their clients.
func (g *WorkerGroup) Workers() []*Worker { return slices.Clone(g.workers) }

// Handle registers a handler with each worker, as [Worker.Handle] does.
func (g *WorkerGroup) Handle(klass string, handler Handler, options ...HandleOption) {
	for _, w := range g.workers {
		w.Handle(klass, handler, options...)
	}
}

// HandleFunc registers a function as [WorkerGroup.Handle] does a handler.
func (g *WorkerGroup) HandleFunc(klass string, work func(ctx context.Context, job *Job) error, options ...HandleOption) {
	g.Handle(klass, HandlerFunc(work), options...)
}

// Use wraps the handlers of each worker, as [Worker.Use] does.
func (g *WorkerGroup) Use(middleware ...Middleware) {
	for _, w := range g.workers {
		w.Use(middleware...)
	}
}

// Run starts the workers and blocks until all have stopped: when the context ends, or by
// [WorkerGroup.Stop] or [WorkerGroup.Drain].
func (g *WorkerGroup) Run(ctx context.Context) error {
	if err := g.Start(ctx); err != nil {
		return err
	}
	for _, w := range g.workers {
		<-w.Closed()
	}
	return nil
}

// Start starts the workers and returns at once, as [Worker.Start] does. When one can't be started,
// none is left running.
func (g *WorkerGroup) Start(ctx context.Context) error {
	if len(g.workers) == 0 {
		return invalid("work", "", "no client is given")
	}
	for i, w := range g.workers {
		if err := w.Start(ctx); err != nil {
			started := WorkerGroup{workers: g.workers[:i]}
			_ = started.Stop(ctx)
			return err
		}
	}
	return nil
}

// Stop stops all workers at once, each as [Worker.Stop] does.
func (g *WorkerGroup) Stop(ctx context.Context) error {
	return each(g.workers, func(w *Worker) error { return w.Stop(ctx) })
}

// Drain drains all workers at once, each as [Worker.Drain] does.
func (g *WorkerGroup) Drain(ctx context.Context) error {
	return each(g.workers, func(w *Worker) error { return w.Drain(ctx) })
}

// Healthy returns nil while all workers do their work, as [Worker.Healthy] tells.
func (g *WorkerGroup) Healthy() error {
	return each(g.workers, func(w *Worker) error { return w.Healthy() })
}
