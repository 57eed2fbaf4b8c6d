package qless

import (
	"context"
	"strings"
	"time"
)

// A Handler works jobs. What it returns says what becomes of the job:
//
//   - nil completes it and saves its data, unless the handler has ended it itself;
//   - [Next] completes it and puts it into another queue;
//   - [Snooze] gives it back without spending a retry;
//   - [RetryIn] retries it after a time, [FailWith] fails it at once;
//   - any other error retries it after the worker's [Backoff], and fails it when it has no
//     retries left.
//
// A panic fails the job with its stack. The context ends when the job's lock is lost, the
// job is canceled, its time is over, or the worker is stopped; [context.Cause] tells which.
// Once the lock is lost, what the handler returns is of no effect. One whose time is over has its
// lock still: it completes its job by nil, and an error has the job retried. When it returns the
// context's error, that is [ErrMaxRunTime] for [Backoff] and FailGroup.
//
// Jobs are run at least once: a handler may be called again for a job that it has worked
// already, when its worker died or lost the lock before the server knew.
type Handler interface {
	Work(ctx context.Context, job *Job) error
}

// HandlerFunc makes a handler of a function.
type HandlerFunc func(ctx context.Context, job *Job) error

// Work calls the function.
func (f HandlerFunc) Work(ctx context.Context, job *Job) error { return f(ctx, job) }

// A Middleware wraps a handler to do something around its work.
type Middleware func(Handler) Handler

// A HandleOption changes how the jobs of one klass are worked.
type HandleOption func(*route)

// WithBackoff sets how long the jobs of a klass wait before they are retried. Defaults to
// the worker's.
func WithBackoff(backoff Backoff) HandleOption {
	return func(r *route) { r.backoff = backoff }
}

// WithMaxRunTime ends the context of a klass's handler after a time, as the MaxRunTime of
// [WorkerConfig] does. Defaults to the worker's.
func WithMaxRunTime(d time.Duration) HandleOption {
	return func(r *route) { r.maxRunTime = d }
}

// Handle registers a function, with a [Worker] or a [WorkerGroup], for a klass whose data is
// decoded into a T first. Data that does not fit fails the job in the group <klass>:data: a retry
// would not mend it.
func Handle[T any](w Registrar, klass string, work func(ctx context.Context, job *Job, data T) error, options ...HandleOption) {
	w.Handle(klass, HandlerFunc(func(ctx context.Context, job *Job) error {
		var data T
		if err := job.Unmarshal(&data); err != nil {
			return FailWith(job.Klass+":data", err)
		}
		return work(ctx, job, data)
	}), options...)
}

// A Registrar takes handlers: a [Worker] or a [WorkerGroup].
type Registrar interface {
	Handle(klass string, handler Handler, options ...HandleOption)
}

// route is a handler and how its jobs are worked.
type route struct {
	handler    Handler
	backoff    Backoff
	maxRunTime time.Duration
}

// mux finds the handler of a klass.
type mux struct {
	exact    map[string]*route
	prefixes map[string]*route // by what a klass begins with; "" takes every klass
}

// add registers a route for a klass, or, for a pattern that ends in *, for all klasses that
// begin with what stands before it.
func (m *mux) add(pattern string, r *route) {
	if m.exact == nil {
		m.exact, m.prefixes = map[string]*route{}, map[string]*route{}
	}
	if prefix, ok := strings.CutSuffix(pattern, "*"); ok {
		m.prefixes[prefix] = r
	} else {
		m.exact[pattern] = r
	}
}

// find returns the route of a klass: its own, else that of the longest prefix, else nil.
func (m *mux) find(klass string) *route {
	if r, ok := m.exact[klass]; ok {
		return r
	}
	for end := len(klass); end >= 0; end-- {
		if r, ok := m.prefixes[klass[:end]]; ok {
			return r
		}
	}
	return nil
}
