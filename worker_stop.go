package qless

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// run runs a started worker until it is closed. Each phase after the first is limited: by Stop, and
// then by [leaveTimeout]. The context base outlives the other one.
func (w *Worker) run(ctx, base context.Context) {
	all, cancel := context.WithCancel(base)
	p := w.startParts(all, cancel)
	w.take(ctx)
	w.drain(p)
	answered := w.report(p)
	w.leave(all, p, answered)
	w.close()
}

// A shutdown holds the latches of a worker's end. Each is opened once.
type shutdown struct {
	stopping latch // no more jobs are taken
	drained  latch // after that, all handlers have returned, and all outcomes are delivered
	forced   latch // the time is over: running jobs are released
	closed   latch // everything has ended
}

func newShutdown() shutdown {
	return shutdown{newLatch(), newLatch(), newLatch(), newLatch()}
}

// The workerParts are the goroutines besides the handlers.
type workerParts struct {
	cancel    context.CancelFunc // ends all parts
	loop      sync.WaitGroup     // exchanges with the server
	renewals  sync.WaitGroup     // of locks
	schedules sync.WaitGroup

	reporters     sync.WaitGroup // report the worker to the server
	stopReporters context.CancelFunc
}

func (w *Worker) startParts(ctx context.Context, cancel context.CancelFunc) *workerParts {
	reporting, stop := context.WithCancel(ctx)
	p := &workerParts{cancel: cancel, stopReporters: stop}
	w.loop.listen(w.listener, w.listener.channels()...)
	p.reporters.Go(func() { w.registry.run(reporting) })
	p.reporters.Go(func() { w.rates.Run(reporting) })
	p.reporters.Go(func() { w.settleDeferred(reporting) })
	p.renewals.Go(func() { w.locks.Run(ctx) })
	for _, schedule := range w.schedules {
		p.schedules.Go(func() { w.follow(ctx, schedule) })
	}
	p.loop.Go(func() { w.loop.run(ctx) })
	return p
}

// take waits while the worker takes jobs, until it is stopped or the context ends.
func (w *Worker) take(ctx context.Context) {
	select {
	case <-ctx.Done():
		go func() { _ = w.Stop(context.Background()) }()
		<-w.shutdown.stopping.c
	case <-w.shutdown.stopping.c:
	}
}

// drain waits until all handlers have returned, or their time is over.
func (w *Worker) drain(p *workerParts) {
	w.releaseAhead(w.setState(workerStopping))
	w.checkQuiet()
	if !w.isQuiet() {
		w.registry.again.Notify()
	}
	w.loop.asker.Due.Notify()
	select {
	case <-closedAfter(p.loop.Wait):
	case <-w.shutdown.drained.c:
	case <-w.shutdown.forced.c:
		w.setUnfinished()
		w.releaseAll()
	}
}

// report waits until the loop has sent the last outcomes, and reports whether the server took them
// in time. If the server is unreachable, their locks expire.
func (w *Worker) report(p *workerParts) (answered bool) {
	if within(leaveTimeout, closedAfter(p.loop.Wait)) {
		return true
	}
	p.cancel()
	return false
}

// leave deregisters the worker, and hardly waits if the server did not answer before.
func (w *Worker) leave(ctx context.Context, p *workerParts, answered bool) {
	patience := time.Duration(0)
	if answered {
		patience = leaveTimeout
	}
	p.stopReporters()
	left := closedAfter(func() {
		relayed := w.loop.unlisten(ctx)
		p.reporters.Wait()
		w.rates.Flush(ctx)
		w.loop.depart(ctx, relayed)
		p.schedules.Wait()
		w.leaveSchedules(ctx)
		p.cancel()
		p.renewals.Wait()
	})
	if !within(patience, left) {
		p.cancel()
		within(cutTimeout, left)
	}
}

// Stop stops the worker. The worker takes no new jobs, releases prefetched ones, and waits until
// the running ones have ended and their outcomes are delivered, for up to the ShutdownTimeout or
// until the context ends. Then it ends the contexts of the jobs that are still running, and
// releases them for other workers without using up a retry. It does not wait for their handlers.
//
// If everything ended in time, Stop returns nil. Otherwise, an [ErrStopped] names the jobs whose
// handlers may still be running, or gives the number of outcomes that the server did not accept,
// and wraps the error of the context if that ended first. Later calls return the same.
func (w *Worker) Stop(ctx context.Context) error {
	timer := time.NewTimer(w.cfg.ShutdownTimeout)
	defer timer.Stop()
	return w.end(ctx, timer.C)
}

// Drain stops the worker as [Worker.Stop] does, but without the ShutdownTimeout: it waits until the
// running jobs have ended or the context ends.
func (w *Worker) Drain(ctx context.Context) error {
	return w.end(ctx, nil)
}

// end stops the worker. Running jobs have until the timeout or the end of the context to finish.
func (w *Worker) end(ctx context.Context, timeout <-chan time.Time) error {
	w.mu.Lock()
	if w.state == workerNew {
		w.state = workerClosed
		w.shutdown.closed.open()
	}
	w.mu.Unlock()
	w.shutdown.stopping.open()
	select {
	case <-w.shutdown.closed.c:
	case <-timeout:
		w.cut(nil)
	case <-ctx.Done():
		w.cut(ctx.Err())
	}
	return w.wait()
}

// cut makes the worker release running jobs. The cause is the error of the context, or nil for the
// timeout.
func (w *Worker) cut(cause error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.shutdown.forced.open() {
		w.cutShort = cause
	}
}

// wait waits until the worker has stopped, and returns the result of Stop.
func (w *Worker) wait() error {
	<-w.shutdown.closed.c
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stopErr
}

// Closed returns a channel that is closed when the worker has stopped.
func (w *Worker) Closed() <-chan struct{} { return w.shutdown.closed.c }

// leaveTimeout limits each of a worker's last steps, reporting outcomes and deregistering, because
// the server may be unreachable.
const leaveTimeout = time.Second

// cutTimeout is how long to wait for the parts of a worker once their context has ended. A part
// that waits for a reply can't be interrupted: go-redis waits until its read timeout.
const cutTimeout = 100 * time.Millisecond

// isQuiet reports whether no handler runs, no lock is held, and all outcomes are delivered. Jobs
// move from the handlers and the lock keeper to the outbox, hence the order of the checks.
func (w *Worker) isQuiet() bool {
	return !w.runsHandlers() && w.locks.IsEmpty() && w.outbox.isEmpty()
}

func (w *Worker) runsHandlers() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.active) > 0
}

// checkQuiet ends the draining if nothing is left to wait for.
func (w *Worker) checkQuiet() {
	if w.currentState() == workerStopping && w.isQuiet() {
		w.shutdown.drained.open()
	}
}

// takeUnstarted removes and returns the jobs that are held but not started. The mutex is held.
func (w *Worker) takeUnstarted() []*run { return append(w.ahead.TakeAll(), w.bulk.takeAll()...) }

// setState sets the state, and returns prefetched jobs, which are no longer started.
func (w *Worker) setState(state workerState) (ahead []*run) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.state = state
	return w.takeUnstarted()
}

// setUnfinished records, once, the jobs whose handlers have not returned.
func (w *Worker) setUnfinished() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.unfinished != nil {
		return
	}
	for r := range w.active {
		w.unfinished = append(w.unfinished, r.jid)
	}
	slices.Sort(w.unfinished)
}

// close marks the worker as stopped.
func (w *Worker) close() {
	w.setState(workerClosed)
	undelivered := w.outbox.close()
	undone(undelivered, ErrStopped)
	w.setUnfinished() // a handler that has lost its lock may still be running
	w.mu.Lock()
	w.stopErr = stopError(w.unfinished, len(undelivered), w.cutShort)
	w.mu.Unlock()
	w.freeName()
	w.shutdown.closed.open()
}

// stopError returns the result of Stop.
func stopError(unfinished []string, undelivered int, cause error) error {
	var problems []string
	if n := len(unfinished); n > 0 {
		list := strings.Join(unfinished[:min(n, 10)], ", ")
		if n > 10 {
			list += fmt.Sprintf(" and %d more", n-10)
		}
		problems = append(problems, "the handlers of these jobs may still run: "+list)
	}
	if undelivered > 0 {
		problems = append(problems,
			fmt.Sprintf("outcomes that the server did not take: %d", undelivered))
	}
	if problems == nil {
		return nil
	}
	return &Error{Op: "stop", Code: ErrStopped, Message: strings.Join(problems, "; "), Err: cause}
}

// closedAfter runs a function and returns a channel that is closed when it has returned.
func closedAfter(run func()) <-chan struct{} {
	done := make(chan struct{})
	go func() { run(); close(done) }()
	return done
}

// within waits for a channel to be closed, and reports whether that happened within d.
func within(d time.Duration, done <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}

// A latch is a gate to be opened once.
type latch struct {
	c    chan struct{} // closed when the latch is open
	once *sync.Once
}

func newLatch() latch { return latch{make(chan struct{}), &sync.Once{}} }

// open opens the latch, and reports whether this call did so.
func (l latch) open() (opened bool) {
	l.once.Do(func() {
		close(l.c)
		opened = true
	})
	return opened
}
