package qlesstest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/qless/qless-go"
)

// Drain waits until a worker, or all workers of a [qless.WorkerGroup], have nothing left to do:
// every schedule has put the jobs due when Drain was called, no job for these workers is ready or
// running, and all outcomes are delivered. Jobs not due by the clock are left alone, as are jobs of
// queues that are paused or at their max-concurrency. Calls of bulk handlers begin as soon as no
// more jobs are ready, regardless of the Wait of their [qless.Bulk].
//
// Drain starts a worker not yet started, and stops that worker when the test ends. The workers keep
// running after Drain, which can be called again. The test fails if no job ends for a minute while
// work is left, or if the test's deadline is near.
func Drain(t testing.TB, workers ...*qless.Worker) {
	t.Helper()
	d := &drain{t: t, workers: workers}
	for _, w := range workers {
		d.start(w)
	}
	d.run()
}

// A drain is one call of Drain.
type drain struct {
	t       testing.TB
	workers []*qless.Worker

	done     int       // the number of ended jobs at the last progress
	deadline time.Time // for more progress
}

// drainTimeout turns a hang of Drain into a failure.
var drainTimeout = time.Minute

// now is the time by which Drain waits.
var now = time.Now

// testEnd is how long before the deadline of a test Drain ends, to report running jobs.
const testEnd = time.Second

// drainPoll is the time between two checks of the workers.
const drainPoll = time.Millisecond

// start starts a worker that is not running.
func (d *drain) start(w *qless.Worker) {
	d.t.Helper()
	if !errors.Is(w.Healthy(), qless.ErrStopped) {
		return
	}
	if err := w.Start(d.t.Context()); err != nil {
		d.t.Fatalf("qlesstest.Drain: %v", err)
	}
	d.t.Cleanup(func() { _ = w.Stop(context.Background()) })
}

// run returns when the workers were idle, were then woken, and found nothing to do. A request in
// flight during the wake-up thus can't hide a job from the workers.
func (d *drain) run() {
	d.t.Helper()
	began := time.Now()
	d.wake()
	d.until(func(s qless.WorkerStats) bool { return s.Idle && haveLooked(s.Schedules, began) })
	for ended := -1; ended != d.ended(); {
		ended = d.ended()
		d.wake()
		d.until(func(s qless.WorkerStats) bool { return s.Idle })
	}
}

// wake makes the workers ask for jobs, and their schedules check the clock.
func (d *drain) wake() {
	d.t.Helper()
	for _, w := range d.workers {
		if w.Stats().Paused {
			d.t.Fatalf("qlesstest.Drain: the worker %s is paused", w.Name())
		}
		w.Resume()
	}
}

// until waits until each worker satisfies a condition.
func (d *drain) until(done func(s qless.WorkerStats) bool) {
	d.t.Helper()
	for _, w := range d.workers {
		for !done(w.Stats()) {
			select {
			case <-w.Closed():
				d.t.Fatalf("qlesstest.Drain: the worker %s was stopped", w.Name())
			case <-time.After(drainPoll):
			}
			d.check(w)
			if w.Stats().Prefetched > 0 {
				w.Resume() // jobs of a bulk handler wait for others
			}
		}
	}
}

// check fails the test after too long without progress, or shortly before the end of the test.
func (d *drain) check(w *qless.Worker) {
	d.t.Helper()
	at := now()
	if done := d.ended(); done != d.done || d.deadline.IsZero() {
		d.done, d.deadline = done, at.Add(drainTimeout)
	}
	if at.After(d.deadline) {
		d.t.Fatalf("qlesstest.Drain: no job ended for %v: %s", drainTimeout, describe(w))
	}
	test, ok := d.t.(interface{ Deadline() (time.Time, bool) })
	if !ok {
		return
	}
	if end, ok := test.Deadline(); ok && at.After(end.Add(-testEnd)) {
		d.t.Fatalf("qlesstest.Drain: no end before that of the test: %s", describe(w))
	}
}

// ended returns the number of jobs ended by the workers.
func (d *drain) ended() (n int) {
	for _, w := range d.workers {
		s := w.Stats()
		n += s.Completed + s.Failed + s.Retried + s.Released + s.Ended + s.Canceled + s.Lost
	}
	return n
}

// haveLooked reports whether all schedules have checked the clock since a time.
func haveLooked(schedules []qless.ScheduleStatus, since time.Time) bool {
	for _, s := range schedules {
		never := s.Next.IsZero() && !s.Checked.IsZero()
		if s.Checked.Before(since) && !never {
			return false
		}
	}
	return true
}

// describe describes the work of a worker.
func describe(w *qless.Worker) string {
	s := w.Stats()
	var doing []string
	for _, r := range s.Running {
		doing = append(doing, fmt.Sprintf("it is running %s %s of queue %s", r.Klass, r.JID, r.Queue))
	}
	if err := w.Healthy(); err != nil {
		doing = append(doing, err.Error())
	}
	if len(doing) == 0 {
		doing = append(doing, "there are always more jobs")
	}
	return fmt.Sprintf("worker %s: %s", w.Name(), strings.Join(doing, "; "))
}
