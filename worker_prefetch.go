package qless

import (
	"slices"
	"time"
)

// prefetchByNeed is how many jobs a worker takes ahead at most unless its config says otherwise.
// More make a job no cheaper, but more of them wait for their locks to end when the worker dies.
const prefetchByNeed = 16

// prefetchWindow is how long a job may wait for the worker that has taken it ahead. A worker takes
// as many as it works off in half of that.
const prefetchWindow = 20 * time.Millisecond

// prefetchTimed is how many handlers a worker times before it takes jobs ahead.
const prefetchTimed = 8

// A prefetch holds the jobs that a worker has taken ahead of its free slots, and decides how many
// these may be. Their locks are kept like those of running jobs. The worker's mutex guards it.
type prefetch struct {
	limit   int
	window  time.Duration
	overdue func() // called when the first job may have waited for too long

	jobs  []*activeJob // first in, first out
	armed bool         // overdue is going to be called
	timed int          // how many handlers were timed, up to prefetchTimed
	mean  time.Duration
}

func newPrefetch(limit int, overdue func()) *prefetch {
	return &prefetch{limit: limit, window: prefetchWindow, overdue: overdue}
}

// ran takes into account how long a handler ran.
func (p *prefetch) ran(d time.Duration) {
	p.timed = min(p.timed+1, prefetchTimed)
	p.mean += (d - p.mean) / time.Duration(p.timed)
}

// wanted returns how many jobs to ask for when so many handlers are free or about to be. None are
// wanted before half of the jobs are used up.
func (p *prefetch) wanted(free int) int {
	short := p.window / 2
	if p.timed < prefetchTimed || p.mean > short {
		return 0
	}
	n := min(p.limit, int(short*time.Duration(free)/max(p.mean, 1)))
	if len(p.jobs) > n/2 {
		return 0
	}
	return n - len(p.jobs)
}

func (p *prefetch) push(a *activeJob) {
	a.held = time.Now()
	p.jobs = append(p.jobs, a)
	p.arm()
}

// arm has overdue called when the first job has waited for the whole window.
func (p *prefetch) arm() {
	if !p.armed && len(p.jobs) > 0 {
		p.armed = true
		time.AfterFunc(time.Until(p.jobs[0].held.Add(p.window)), p.overdue)
	}
}

// pop removes and returns the first job, or nil.
func (p *prefetch) pop() *activeJob {
	if len(p.jobs) == 0 {
		return nil
	}
	a := p.jobs[0]
	p.jobs = p.jobs[1:]
	return a
}

func (p *prefetch) remove(a *activeJob) {
	p.jobs = slices.DeleteFunc(p.jobs, func(b *activeJob) bool { return a == b })
}

// takeAll removes and returns all jobs.
func (p *prefetch) takeAll() []*activeJob {
	all := p.jobs
	p.jobs = nil
	return all
}

// takeOverdue removes and returns all jobs if the first has waited for too long. Then no more are
// taken ahead until some handlers have been timed.
func (p *prefetch) takeOverdue() []*activeJob {
	p.armed = false
	if len(p.jobs) == 0 || time.Since(p.jobs[0].held) < p.window {
		p.arm()
		return nil
	}
	p.timed, p.mean = 0, 0
	return p.takeAll()
}

// admit starts a job whose lock is kept, or holds it if no slot is free. It gives the job back if
// the worker no longer wants jobs.
func (w *Worker) admit(a *activeJob) {
	w.mu.Lock()
	wanted := w.state == workerRunning && !w.paused
	switch {
	case a.dropped || !wanted:
	case len(w.active) < w.cfg.Concurrency:
		w.start(a)
	default:
		w.ahead.push(a)
	}
	w.mu.Unlock()
	if !wanted {
		w.releaseAhead([]*activeJob{a})
	}
}

// startNext starts the first job that was taken ahead, unless it was lost. The mutex is held.
func (w *Worker) startNext() {
	for a := w.ahead.pop(); a != nil; a = w.ahead.pop() {
		if !a.hold.lost.Load() {
			w.start(a)
			return
		}
		a.dropped = true
	}
}

// wantedAhead returns how many jobs to take ahead. Handlers that have been running for long do not
// count: they may run on. The mutex is held.
func (w *Worker) wantedAhead() int {
	if w.ahead.limit == 0 || w.ahead.timed < prefetchTimed {
		return 0
	}
	free := w.cfg.Concurrency
	for a := range w.active {
		if time.Since(a.started) > w.ahead.window/2 {
			free--
		}
	}
	return w.ahead.wanted(max(0, free))
}

// releaseOverdue gives back the jobs that were taken ahead if handlers take longer than expected.
func (w *Worker) releaseOverdue() {
	w.mu.Lock()
	overdue := w.ahead.takeOverdue()
	w.mu.Unlock()
	w.releaseAhead(overdue)
}

// releaseAhead releases jobs that were taken ahead, which keep their order.
func (w *Worker) releaseAhead(jobs []*activeJob) {
	if len(jobs) == 0 {
		return
	}
	for _, a := range jobs {
		if w.locks.take(a) {
			w.release(a, false)
			w.locks.left(a)
		}
	}
	w.checkQuiet()
	w.loop.due.notify()
}

// dropUnstarted reports whether the handler of a job that is lost was not called. Then it never is.
func (w *Worker) dropUnstarted(a *activeJob) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !a.started.IsZero() {
		return false
	}
	a.dropped = true
	w.ahead.remove(a)
	return true
}
