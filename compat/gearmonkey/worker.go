package gearmonkey

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"
)

// WorkerConfig says how a worker works. Its zero value works.
type WorkerConfig struct {
	// Clock tells which scheduled jobs are due. Defaults to [time.Now].
	Clock func() time.Time

	// Logger is where the worker reports. Defaults to [slog.Default].
	Logger *slog.Logger

	// ShutdownTimeout is how long a running job may take to end when the worker is stopped.
	// Then its context ends. Defaults to 20 s.
	ShutdownTimeout time.Duration
}

func (c WorkerConfig) withDefaults() WorkerConfig {
	if c.Clock == nil {
		c.Clock = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.ShutdownTimeout == 0 {
		c.ShutdownTimeout = 20 * time.Second
	}
	return c
}

// A Worker works the jobs of the functions that it accepts.
type Worker struct {
	client *Client
	cfg    WorkerConfig

	mu       sync.Mutex
	handlers map[string]Handler
	order    []string // functions as they were first accepted
	problem  error    // what Accept could not take
}

// NewWorker returns a worker that accepts no function yet.
func NewWorker(client *Client, config WorkerConfig) *Worker {
	return &Worker{client: client, cfg: config.withDefaults(), handlers: map[string]Handler{}}
}

// Accept makes the worker work the jobs of a function, from the next [Worker.Work] on.
// Accepting it again replaces its handler. A function or handler that can't be used is
// reported by Work.
//
// One function a worker is best. Of several, jobs that are due come first, then those of
// high priority, and so on; within each the function that was accepted first goes first,
// so that the others wait while it has any.
func (w *Worker) Accept(fn string, handler Handler) {
	w.mu.Lock()
	defer w.mu.Unlock()
	err := checkFunction("accept", fn)
	if err == nil && handler == nil {
		err = invalid("accept", fn, "the function has no handler")
	}
	if err != nil {
		w.problem = errors.Join(w.problem, err)
		return
	}
	if _, known := w.handlers[fn]; !known {
		w.order = append(w.order, fn)
	}
	w.handlers[fn] = handler
}

// Work works jobs, one at a time, until the context ends. Then it takes no more, gives a
// running one the ShutdownTimeout to end, waits until its handler has returned, and returns
// nil. An idle worker takes up to a second: a job on its way to it would be lost otherwise. To stop at a signal,
// use a context of [os/signal.NotifyContext].
//
// It may be called several times at once, to work as many jobs at once: each call is a
// worker of its own to clients, counts, and needs a connection of the pool.
//
// It returns an error when it could not begin: [ErrInvalid], [ErrScript],
// [ErrUnavailable], [ErrServer]. A server that goes away later is waited for, to tell the
// outcome of a job, too; after the end of the context for two seconds. An error at the end
// says in which functions the worker may still be counted, for the server was away.
//
// A scheduled job may be up to a second late.
//
// Cost of a job: ten commands in five round trips, one less of each when it was scheduled,
// and one more for each further function. An idle worker sends as many a second as it has
// functions, and one more.
func (w *Worker) Work(ctx context.Context) (err error) {
	s, err := w.newShift()
	if err != nil || ctx.Err() != nil {
		return err
	}
	if err := s.client.loadScript(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.signOut(ctx)) }() // in a panic, too
	if err := s.signIn(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	return s.loop(ctx)
}

// newShift takes what the worker accepts by now.
func (w *Worker) newShift() (*shift, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.problem != nil:
		return nil, w.problem
	case len(w.order) == 0:
		return nil, invalid("work", "", "no function is accepted")
	case w.cfg.ShutdownTimeout < 0:
		return nil, invalid("work", "", "ShutdownTimeout %v is negative", w.cfg.ShutdownTimeout)
	}
	s := &shift{
		client:    w.client,
		cfg:       w.cfg,
		log:       w.cfg.Logger,
		functions: slices.Clone(w.order),
		routes:    map[string]route{},
	}
	for _, fn := range s.functions {
		s.routes[queueKey(fn, scheduled)] = route{fn, w.handlers[fn]}
	}
	for _, level := range levels {
		for _, fn := range s.functions {
			key := queueKey(fn, string(level))
			s.queues = append(s.queues, key)
			s.routes[key] = route{fn, w.handlers[fn]}
		}
	}
	return s, nil
}

// departTimeout bounds how long a stopped worker tries to tell what it has to tell.
const departTimeout = 2 * time.Second
