package qless

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/qless/qless-go/internal/gather"
	"github.com/qless/qless-go/internal/slots"
)

// A Handler does the work of a job. Its result decides what happens next:
//
//   - nil completes the job and saves its data, unless the handler has already ended it;
//   - [Next] completes the job and puts it into another queue;
//   - [Snooze] releases the job for a time, without using up a retry;
//   - [RetryIn] retries the job after a time, and [FailWith] fails it at once;
//   - any other error retries the job after the worker's [Backoff], or fails it for lack of
//     retries.
//
// A panic fails the job, with its stack as the message.
//
// The context has the values of the worker's, with [ClientFromContext] and [Logger]. It ends when
// the job's lock is lost, the job is canceled or exceeds its MaxRunTime, or the worker is stopped;
// [context.Cause] returns which. Once the lock is lost, the handler's result has no effect.
//
// A job is run at least once. A worker runs the job again if the last one died or lost the lock
// before the server received the outcome.
type Handler func(ctx context.Context, job *Job) error

// Typed returns a handler that decodes the job's data into a T before calling work. Data that does
// not fit fails the job in the group <klass>:data. Typed panics if work is nil.
func Typed[T any](work func(ctx context.Context, job *Job, data T) error) Handler {
	if work == nil {
		panic("qless: Typed: nil function")
	}
	return func(ctx context.Context, job *Job) error {
		var data T
		if err := job.Unmarshal(&data); err != nil {
			return FailWith(job.Klass+":data", err)
		}
		return work(ctx, job, data)
	}
}

// TypedResult returns a handler as [Typed] does. The return value of work becomes the job's result
// ([Job.SetResult]) if the job is complete, and is dropped otherwise. A result that can't be JSON
// fails the job in the group <klass>:result. TypedResult panics if work is nil.
func TypedResult[T, R any](work func(ctx context.Context, job *Job, data T) (R, error)) Handler {
	if work == nil {
		panic("qless: TypedResult: nil function")
	}
	return Typed(func(ctx context.Context, job *Job, data T) error {
		result, err := work(ctx, job, data)
		if OutcomeOf(err).Action != ActionComplete {
			return err
		}
		if err := job.SetResult(result); err != nil {
			return FailWith(job.Klass+":result", err)
		}
		return err
	})
}

// A Middleware wraps a handler. [OutcomeOf] returns the meaning of the handler's error.
type Middleware func(next Handler) Handler

// A chain is the middleware of a worker, the outermost first.
type chain []Middleware

// wrap puts the middleware around a handler.
func (c chain) wrap(handler Handler) Handler {
	for _, m := range slices.Backward(c) {
		handler = m(handler)
	}
	return handler
}

// wraps reports whether every middleware returns a handler.
func (c chain) wraps() bool {
	next := Handler(func(context.Context, *Job) error { return nil })
	return !slices.ContainsFunc(c, func(m Middleware) bool { return m(next) == nil })
}

// A HandleOption changes how the jobs of one klass are run: [MaxRunTime], [Backoff] or
// [Concurrency].
type HandleOption interface{ applyHandle(*route) }

// Concurrency is an option of [Worker.Handle]: the maximum number of jobs of the klass that the
// worker runs at once, to protect the memory or the processors of its machine. 0 is the default: as
// many as the Concurrency of the [WorkerConfig] allows. A pattern has one number for all matching
// klasses.
//
// Further jobs are handed back to the front of their queues, without using up a retry, and the
// worker takes no job from these queues until one of the klass has ended. Jobs of other klasses
// wait there as long, so give the klass a queue of its own. To limit all workers together, use
// [Limits].
type Concurrency int

func (d MaxRunTime) applyHandle(r *route)  { r.maxRunTime = time.Duration(d) }
func (b Backoff) applyHandle(r *route)     { r.backoff = b }
func (n Concurrency) applyHandle(r *route) { r.kind.Most = int(n) }

// A route is a handler with its options.
type route struct {
	handler    Handler
	backoff    Backoff       // nil for the worker's
	maxRunTime time.Duration // 0 for the worker's, -1 for never
	kind       slots.Kind    // guarded by the worker's mutex
	bulk       *bulkOption   // nil if each job has a call of its own
	pool       *gather.Pool[*run]
}

// newRoute returns the route of a klass, and panics if the arguments are invalid.
func newRoute(klass string, handler Handler, options []HandleOption) *route {
	refuse := func(problem any) { panic(fmt.Sprintf("qless: Handle(%q): %v", klass, problem)) }
	switch {
	case klass == "":
		refuse("the klass is empty")
	case !utf8.ValidString(klass):
		refuse("the klass is not UTF-8")
	case strings.Contains(strings.TrimSuffix(klass, "*"), "*"):
		refuse("a * is a pattern only at the end")
	case handler == nil:
		refuse("nil handler")
	}
	r := &route{handler: handler}
	for _, option := range options {
		if option == nil {
			refuse("nil option")
		}
		if backoff, ok := option.(Backoff); ok && backoff == nil {
			refuse("nil Backoff")
		}
		option.applyHandle(r)
	}
	if r.maxRunTime < 0 && r.maxRunTime != none {
		refuse(fmt.Sprintf("negative MaxRunTime %v", r.maxRunTime))
	}
	if r.kind.Most < 0 {
		refuse(fmt.Sprintf("negative Concurrency %d", r.kind.Most))
	}
	if r.bulk != nil && r.bulk.problem() != "" {
		refuse(r.bulk.problem())
	}
	return r
}

// kindOf returns the kind of the jobs of a route, which may be nil, or nil if only the slots limit
// their number.
func kindOf(r *route) *slots.Kind {
	if r == nil || r.kind.Most == 0 && r.pool == nil {
		return nil
	}
	return &r.kind
}

// A mux finds the handler of a klass.
type mux struct {
	exact    map[string]*route
	prefixes map[string]*route // by the prefix of the klass; "" matches every klass
}

// add registers a route for a klass or, if the pattern ends in *, for every klass with that prefix.
// It panics if there is one already.
func (m *mux) add(pattern string, r *route) {
	if m.exact == nil {
		m.exact, m.prefixes = map[string]*route{}, map[string]*route{}
	}
	routes, name := m.exact, pattern
	if prefix, ok := strings.CutSuffix(pattern, "*"); ok {
		routes, name = m.prefixes, prefix
	}
	if routes[name] != nil {
		panic(fmt.Sprintf("qless: Handle(%q): the klass has a handler already", pattern))
	}
	routes[name] = r
}

// find returns the route of a klass: its own, that of the longest matching prefix, or nil.
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

// isEmpty reports whether no handler is registered.
func (m *mux) isEmpty() bool { return len(m.exact)+len(m.prefixes) == 0 }

// klasses returns the klasses and patterns with a handler, sorted.
func (m *mux) klasses() []string {
	klasses := slices.Collect(maps.Keys(m.exact))
	for prefix := range m.prefixes {
		klasses = append(klasses, prefix+"*")
	}
	slices.Sort(klasses)
	return klasses
}

// clientKey is the context key for the worker's client.
type clientKey struct{}

// ClientFromContext returns the client of the worker that called the handler with this context, for
// instance to put follow-up jobs. It returns nil for any other context.
func ClientFromContext(ctx context.Context) *Client {
	client, _ := ctx.Value(clientKey{}).(*Client)
	return client
}
