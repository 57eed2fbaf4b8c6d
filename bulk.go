package qless

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/qless/qless-go/internal/gather"
	"github.com/qless/qless-go/internal/guard"
)

// A Bulk passes jobs of a klass to a handler several at a time, such as rows to be inserted by one
// statement: see [Klass.HandleBulk].
type Bulk struct {
	// Max is the maximum number of jobs in a call, from 2 to 1000.
	Max int

	// Wait is how long the first job of a call waits for others.
	//
	// Defaults to 0: a call begins when a request to the server has brought no more jobs for it.
	Wait time.Duration

	// By returns the key of a job: only jobs with the same key are handled in one call. The job is a
	// copy. A By that panics counts as a handler's panic, and one that takes a second as its error.
	By func(job *Job) string
}

// A Member is one of the jobs that a bulk handler is called with.
type Member[T any] struct {
	Job  *Job
	Data T

	// Err is the outcome of the job, set by the handler: an error as from a [Handler], such as
	// [RetryIn] or [Snooze]. With nil, the job has the outcome of the whole call.
	Err error
}

// HandleBulk registers a handler that is called with several jobs of the klass. The returned error
// is the outcome of each member without an Err, and a panic fails all members. HandleBulk panics if
// the Bulk is invalid, and in the same cases as [Klass.Handle].
//
// A call counts as one job for the Concurrency of the worker and of the klass, but each member has
// retries, limits, events and outcomes of its own. A call that waits for jobs takes no slot, and
// the worker keeps their locks. Middleware is called for each member, and the call waits until all
// have passed it. A worker with a bulk handler prefetches no jobs.
//
// The context ends after the shortest MaxRunTime of the members, when the worker is stopped, or
// when all members are lost. The outcome of a member that is lost alone has no effect.
func (k Klass[T]) HandleBulk(
	on Registry, bulk Bulk, work func(ctx context.Context, members []*Member[T]) error,
	options ...HandleOption,
) {
	if work == nil {
		panic(fmt.Sprintf("qless: HandleBulk(%q): nil function", k.name))
	}
	all := func(ctx context.Context, members []any) error {
		typed := make([]*Member[T], len(members))
		for i, m := range members {
			typed[i] = m.(*Member[T])
		}
		return work(ctx, typed)
	}
	one := Typed(func(ctx context.Context, job *Job, data T) error {
		m := &Member[T]{Job: job, Data: data}
		return handleTogether(ctx, job, m, all, func() error { return m.Err })
	})
	on.Handle(k.name, one, append(slices.Clone(options), bulkOption{bulk, all})...)
}

// A bulkOption makes a route that of a bulk handler.
type bulkOption struct {
	Bulk
	work func(ctx context.Context, members []any) error
}

func (o bulkOption) applyHandle(r *route) { r.bulk = &o }

// problem returns a description of an invalid field, or the empty string.
func (o *bulkOption) problem() string {
	switch {
	case o.Max < 2 || o.Max > 1000:
		return fmt.Sprintf("Bulk.Max %d is not from 2 to 1000", o.Max)
	case o.Wait < 0:
		return fmt.Sprintf("negative Bulk.Wait %v", o.Wait)
	}
	return ""
}

// A seat is the place of a member in a bulk call.
type seat struct {
	member any
	run    *run

	// Set by the call.
	err     error
	over    bool  // the call has taken longer than the MaxRunTime
	problem error // why the handler did not return
}

// handleTogether handles a job in the call of its run or, without one, in a call of one job. own
// returns the outcome that the handler has set for the job.
func handleTogether(
	ctx context.Context, job *Job, member any,
	work func(ctx context.Context, members []any) error, own func() error,
) error {
	h, _ := job.run.(*hold)
	if h == nil || h.Holder.bulk == nil {
		err := work(ctx, []any{member})
		if own() != nil {
			return own()
		}
		return err
	}
	r := h.Holder
	s := &seat{member: member, run: r}
	r.bulk.Join(r, s)
	switch err := own(); {
	case s.problem != nil:
		return r.unreturned(s.problem)
	case err != nil:
		return ranTooLong(s.over, err)
	}
	return ranTooLong(s.over, s.err)
}

// A bulkCall is a call of a bulk handler, with a slot from the start of its members until the last
// has ended.
type bulkCall struct {
	*gather.Call[*run, *seat]
	left int // the members that have not ended; guarded by the worker's mutex
}

// leaves records the end of a member, and reports whether it is the last one. The worker's mutex is
// held.
func (c *bulkCall) leaves() bool {
	c.left--
	return c.left == 0
}

// workTogether calls the bulk handler for members of a call.
func workTogether(base context.Context, seats []*seat) {
	ctx, cancel := contextOfAll(base, seats)
	defer cancel()
	first, members, jids := seats[0].run, make([]any, len(seats)), make([]string, len(seats))
	for i, s := range seats {
		members[i], jids[i] = s.member, s.run.jid
	}
	var err error
	problem := guard.Call(func() {
		defer first.worker.stacks.Begin(jids...)()
		err = first.route.bulk.work(ctx, members)
	})
	over := isOver(ctx)
	for _, s := range seats {
		s.err, s.over, s.problem = err, over, problem
	}
}

// contextOfAll returns the context of a bulk call.
func contextOfAll(base context.Context, seats []*seat) (context.Context, context.CancelFunc) {
	first := seats[0].run
	ctx, end := context.WithCancelCause(first.worker.log.withCall(base, first.klass, len(seats)))
	var left atomic.Int32
	left.Store(int32(len(seats)))
	limit := time.Duration(0)
	for _, s := range seats {
		if own := s.run.maxRunTime(); own > 0 && (limit <= 0 || own < limit) {
			limit = own
		}
		s.run.onEnd(func(cause error) {
			if left.Add(-1) == 0 || cause == ErrStopped {
				end(cause)
			}
		})
	}
	if limit <= 0 {
		return ctx, func() { end(nil) }
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, ErrMaxRunTime)
	return ctx, func() { cancel(); end(nil) }
}

// bulkCalls are the jobs of a worker that wait for their bulk calls. Methods are called with the
// worker's mutex held, unless stated otherwise.
type bulkCalls struct {
	w      *Worker
	work   func(seats []*seat) // calls the handler; set by Start
	routes []*route
	hurry  bool         // calls begin as soon as no more jobs are ready
	guard  *guard.Guard // calls the functions By
}

// add adds the route of a bulk handler.
func (b *bulkCalls) add(r *route) {
	r.pool = gather.New[*run](r.bulk.Max, r.hasKeys(), r.bulk.Wait, b.due)
	b.w.slots.Gather(&r.kind, r.pool)
	b.routes = append(b.routes, r)
}

// hold holds a job until its call begins.
func (b *bulkCalls) hold(r *run) {
	r.route.pool.Add(r.key, r)
	if r.route.pool.Room() == 0 {
		b.begin()
	}
}

// begin begins the calls that wait for no more jobs, as far as there are slots.
func (b *bulkCalls) begin() {
	for _, route := range b.routes {
		for b.w.slots.CanCall(&route.kind) {
			members := route.pool.Next()
			if members == nil {
				break
			}
			call := &bulkCall{gather.NewCall(members, b.work), len(members)}
			b.w.slots.Take(&route.kind)
			for _, r := range members {
				r.bulk = call
				r.start()
			}
		}
	}
}

// due begins calls when jobs have waited for long enough. The mutex is not held.
func (b *bulkCalls) due() {
	b.w.mu.Lock()
	b.begin()
	b.w.mu.Unlock()
	b.w.loop.asker.Due.Notify()
}

// settle begins calls after an answer, or after none. more is set if there may be more jobs. The
// mutex is not held.
func (b *bulkCalls) settle(more bool) {
	if len(b.routes) == 0 {
		return
	}
	b.w.mu.Lock()
	all := b.hurry && !more
	b.hurry = b.hurry && more
	for _, route := range b.routes {
		route.pool.Settle(more, all)
	}
	b.w.mu.Unlock()
	b.due()
}

// admit admits the jobs of an answer that need a key, and then begins calls. more is set if there
// may be more jobs. The mutex is not held.
func (b *bulkCalls) admit(keyed []*run, more bool) {
	if len(keyed) == 0 {
		b.settle(more)
		return
	}
	go func() { // By may take its time
		for _, r := range keyed {
			r.findKey(b.guard)
			r.admit()
		}
		b.settle(more)
	}()
}

// takeAll removes and returns all jobs.
func (b *bulkCalls) takeAll() (all []*run) {
	for _, route := range b.routes {
		all = append(all, route.pool.TakeAll()...)
	}
	return all
}

// len returns the number of jobs.
func (b *bulkCalls) len() (n int) {
	for _, route := range b.routes {
		n += route.pool.Len()
	}
	return n
}

// hasKeys reports whether the jobs of a route have keys.
func (r *route) hasKeys() bool { return r.bulk != nil && r.bulk.By != nil }

// findKey calls the By of the run's bulk handler. No mutex is held.
func (r *run) findKey(g *guard.Guard) {
	job := r.copyOfJob()
	job.Data = slices.Clone(job.Data)
	r.fault = g.Call(func() {
		job.decodeData()
		r.key = r.route.bulk.By(job)
	})
}
