package gearmonkey

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/qless/qless-go/internal/guard"
)

// WorkerConfig configures a [Worker]. The zero value is ready to use.
type WorkerConfig struct {
	// Clock returns the time for finding due scheduled jobs. Defaults to [time.Now].
	Clock func() time.Time

	// Logger receives the worker's log. Defaults to [slog.Default].
	Logger *slog.Logger

	// ShutdownTimeout limits how long a running job may continue after the worker is stopped. Then the
	// job's context is canceled. Defaults to 20 s.
	ShutdownTimeout time.Duration
}

func (c WorkerConfig) withDefaults() WorkerConfig {
	if c.Clock == nil {
		c.Clock = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	c.Logger = guard.Logger(c.Logger)
	c.Clock = guard.Clock(c.Clock, c.Logger)
	if c.ShutdownTimeout == 0 {
		c.ShutdownTimeout = 20 * time.Second
	}
	return c
}

// A Worker runs the jobs of its accepted functions.
type Worker struct {
	client *Client
	cfg    WorkerConfig

	mu       sync.Mutex
	handlers map[string]Handler
	order    []string // functions in the order of first acceptance
	problem  error    // errors of Accept
}

// NewWorker returns a worker without accepted functions.
func NewWorker(client *Client, config WorkerConfig) *Worker {
	return &Worker{client: client, cfg: config.withDefaults(), handlers: map[string]Handler{}}
}

// Accept registers the handler for the jobs of a function, starting with the next [Worker.Work].
// Accepting a function again replaces its handler. Work reports an invalid function or handler.
//
// One function per worker is best. With several, due jobs come first, then those with high
// priority, and so on. Within each level, the function accepted first comes first, and the others
// wait while that function has jobs.
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

// Work runs jobs, one at a time, until ctx is done. Then Work takes no more jobs, gives a running
// job the ShutdownTimeout to end, waits for the handler to return, and returns nil. An idle worker
// takes up to a second to stop, to avoid losing a job under way, and up to four if the server
// hangs. To stop on a signal, use a context from [os/signal.NotifyContext].
//
// To run several jobs at once, call Work several times concurrently: clients see each call as a
// separate worker, and each call needs a connection from the pool.
//
// Work returns an error if it could not start: [ErrInvalid], [ErrScript], [ErrUnavailable] or
// [ErrServer]. If the server goes away or refuses commands later, Work waits for the server, also
// to store the outcome of a job; once ctx is done, Work waits at most two seconds. If the server
// refuses to begin a job, the job returns to its queue, and the worker takes no other job for a
// while. An error after stopping lists the functions that may still count the worker because the
// server was away. A function may also count the worker if the reply to joining the count was lost.
//
// A scheduled job may start up to a second late.
//
// The begin and the end of a job are a transaction each, without the event if the user may not
// publish. Cost of a job: ten commands in five round trips, one less of each for a scheduled job,
// and one more for each further function. An idle worker sends one command a second, plus one for
// each function.
func (w *Worker) Work(ctx context.Context) (err error) {
	s, err := w.newShift()
	if err != nil || ctx.Err() != nil {
		return err
	}
	if err := s.loadScript(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.signOut(ctx)) }() // also after a panic
	if err := s.signIn(ctx); err != nil {
		return err
	}
	return s.loop(ctx)
}

// newShift returns a shift for the functions accepted so far.
func (w *Worker) newShift() (*shift, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.problem != nil:
		return nil, w.problem
	case len(w.order) == 0:
		return nil, invalid("work", "", "no functions are accepted")
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

// departTimeout limits how long a stopped worker keeps trying to store outcomes and counts.
const departTimeout = 2 * time.Second
