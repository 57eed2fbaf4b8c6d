package doctor

import (
	"fmt"
	"slices"
	"time"

	"github.com/qless/qless-go/inspect"
)

// causes returns the causes that keep jobs waiting, the likeliest first.
func (l *look) causes() []Cause {
	if l.isEmpty() {
		return append(l.nothing(), l.unhandled()...)
	}
	futile, untried := l.noCompletions()
	outside := [][]Cause{l.paused(), futile, l.concurrency(), l.rate(), l.fullLimits()}
	workers := [][]Cause{l.workersPaused(), l.noWorkers(), l.workersBusy()}
	own := [][]Cause{
		l.untold(), l.unswept(), l.failedDependencies(), l.openBatches(), l.dependencies(),
		l.scheduledOnly(), l.recurring(),
	}
	locks := [][]Cause{l.grace(), l.stalledLocks()}
	other := [][]Cause{l.unhandled(), untried}

	if l.isReady() {
		workers = append(workers, l.noHandler())
	} else {
		workers, own = slices.Insert(own, 0, l.noHandler()), workers
	}
	found := slices.Concat(slices.Concat(outside, workers, own, locks, other)...)
	if len(found) == 0 || l.counts.Waiting > 0 && !slices.ContainsFunc(found, holdsWaiting) {
		found = append(found, l.noCause())
	}
	return found
}

// holdsWaiting reports whether a cause keeps waiting jobs from running. If locks stay expired, no
// worker asks the queue for jobs.
func holdsWaiting(c Cause) bool {
	switch c.Code {
	case CodePaused, CodeMaxConcurrency, CodeMaxRate, CodeWorkersPaused, CodeNoWorkers,
		CodeWorkersBusy, CodeNoHandler, CodeStalled, CodeNoCompletions:
		return true
	}
	return false
}

// nothing reports that the queue has no jobs.
func (l *look) nothing() []Cause {
	if !l.known {
		return []Cause{{
			Code: CodeUnknown, Certain: true,
			Sentence: fmt.Sprintf("No queue %q is known: it never had a job, or it was forgotten.",
				l.queue.Name()),
		}}
	}
	return []Cause{{
		Code: CodeEmpty, Certain: true, Sentence: "The queue has no jobs.",
	}}
}

func (l *look) paused() []Cause {
	if !l.counts.Paused {
		return nil
	}
	return []Cause{{
		Code: CodePaused, Certain: true, Jobs: l.counts.Waiting,
		Sentence: "The queue is paused: workers get no jobs until it is unpaused.",
	}}
}

func (l *look) concurrency() []Cause {
	most := l.settings.MaxConcurrency
	if most == 0 || l.counts.Running < most || l.counts.Waiting == 0 {
		return nil
	}
	return []Cause{{
		Code: CodeMaxConcurrency, Certain: true, Jobs: l.counts.Waiting,
		Max: l.settings.MaxConcurrency, Busy: l.counts.Running, JIDs: first(jidsOf(l.running)),
		Workers: workersOf(l.running),
		Sentence: fmt.Sprintf("No more than %s of the queue may run at once, and %s: %s.",
			count(l.settings.MaxConcurrency, "job"), verb(l.counts.Running, "job", "runs", "run"),
			list(jidsOf(l.running))),
	}}
}

func (l *look) rate() []Cause {
	if l.settings.NextStart.IsZero() || l.counts.Waiting == 0 {
		return nil
	}
	return []Cause{{
		Code: CodeMaxRate, Certain: true, Jobs: l.counts.Waiting,
		Max: l.settings.MaxRate, Per: l.settings.Per, Until: l.settings.NextStart,
		Sentence: fmt.Sprintf("No more than %s may start in %v, the next one at %s.",
			count(l.settings.MaxRate, "job"), l.settings.Per, clock(l.settings.NextStart)),
	}}
}

// fullLimits reports the limits that keep jobs waiting, the one with the most jobs first.
func (l *look) fullLimits() []Cause {
	var found []Cause
	for i := range l.limits {
		found = append(found, l.fullLimit(&l.limits[i]))
	}
	slices.SortStableFunc(found, func(a, b Cause) int { return b.Jobs - a.Jobs })
	return found
}

func (l *look) fullLimit(limit *inspect.LimitInfo) Cause {
	isSample := l.counts.Scheduled > len(l.scheduled)
	c := Cause{Code: CodeLimit, Certain: true, Limit: limit, Sampled: isSample}
	for i := range l.scheduled {
		if l.scheduled[i].Parked == limit.Name {
			c.Jobs++
		}
	}
	c.JIDs, c.Until, c.Max = first(limit.Running), limit.Next, limit.Config.Concurrency
	waits := fmt.Sprintf("%s for the limit %q", verb(c.Jobs, "job", "waits", "wait"), limit.Name)
	switch {
	case !limit.HeldUntil.IsZero():
		c.Sentence = fmt.Sprintf("%s, which is held until %s.", waits, clock(limit.HeldUntil))
	case !limit.Next.IsZero():
		c.Max, c.Per = limit.Config.Rate, limit.Config.Per
		c.Sentence = fmt.Sprintf("%s: no more than %s may start in %v, the next one at %s.",
			waits, count(c.Max, "job"), c.Per, clock(limit.Next))
	case c.Max > 0 && len(limit.Running) >= c.Max:
		c.Sentence = fmt.Sprintf("%s: no more than %d may run at once, and these do: %s.",
			waits, c.Max, list(limit.Running))
	default:
		c.Certain = false
		c.Sentence = waits +
			", which has free slots now: each job is tried again within about a minute."
	}
	return c
}

// workersPaused reports that the workers of the queue are paused.
func (l *look) workersPaused() []Cause {
	if len(l.workers.takers) > 0 || len(l.workers.idle) == 0 {
		return nil
	}
	return []Cause{{
		Code: CodeWorkersPaused, Certain: len(l.workers.silent) == 0, Jobs: l.counts.Waiting,
		Workers: namesOf(l.workers.idle), Silent: len(l.workers.silent),
		Sentence: fmt.Sprintf("All workers that take jobs from the queue are paused or stopping: %s.",
			list(names(l.workers.idle))) + l.aboutSilent(),
	}}
}

// noWorkers reports that no known worker takes jobs from the queue.
func (l *look) noWorkers() []Cause {
	if len(l.workers.takers)+len(l.workers.idle) > 0 || len(l.silentAtWork()) > 0 {
		return nil
	}
	sentence := "No known worker takes jobs from the queue."
	if gone := l.workers.gone; len(gone) > 0 {
		sentence += fmt.Sprintf(" Gone: %s.", list(names(gone)))
	}
	return []Cause{{
		Code: CodeNoWorkers, Certain: len(l.workers.silent) == 0, Jobs: l.counts.Waiting,
		Silent: len(l.workers.silent), Sentence: sentence + l.aboutSilent(),
	}}
}

// aboutSilent returns a sentence about the unregistered workers, if there are any.
func (l *look) aboutSilent() string {
	if len(l.workers.silent) == 0 {
		return ""
	}
	return fmt.Sprintf(" The queues of %s are unknown: clients that pop, workers in other languages,"+
		" or dead workers.", count(len(l.workers.silent), "listed worker"))
}

// silentAtWork returns the unregistered workers that run jobs of the queue.
func (l *look) silentAtWork() []string {
	return slices.DeleteFunc(workersOf(l.running), func(name string) bool {
		return !l.workers.isSilent(name)
	})
}

func (l *look) workersBusy() []Cause {
	if l.counts.Waiting == 0 {
		return nil
	}
	if len(l.workers.takers) == 0 {
		return l.silentBusy()
	}
	if !l.workers.isBusy() {
		return nil
	}
	slots, busy := l.workers.slots()
	return []Cause{{
		Code: CodeWorkersBusy, Certain: len(l.workers.silent) == 0, Jobs: l.counts.Waiting,
		Workers: namesOf(l.workers.takers), Slots: slots, Busy: busy, Silent: len(l.workers.silent),
		Sentence: fmt.Sprintf("%s jobs from the queue, and none has a free slot: %s in %s.",
			verb(len(l.workers.takers), "worker", "takes", "take"),
			count(busy, "job"), count(slots, "slot")),
	}}
}

// silentBusy reports the unregistered workers that run jobs of the queue.
func (l *look) silentBusy() []Cause {
	at := l.silentAtWork()
	if len(at) == 0 {
		return nil
	}
	return []Cause{{
		Code: CodeWorkersBusy, Jobs: l.counts.Waiting, Workers: at, Busy: len(l.running),
		Silent: len(l.workers.silent),
		Sentence: fmt.Sprintf("No registered worker takes jobs from the queue. %s its jobs with an"+
			" unknown number of slots, which may all be busy: %s.",
			verb(len(at), "worker", "runs", "run"), list(at)),
	}}
}

// noHandler reports the klasses that no worker handles. Jobs released for lack of a handler are
// scheduled for some seconds.
func (l *look) noHandler() []Cause {
	if len(l.workers.takers) == 0 {
		return nil
	}
	var found []Cause
	for _, klass := range klassesOf(l.waiting, l.scheduled) {
		if l.workers.handles(klass) {
			continue
		}
		jobs := withKlass(klass, l.waiting, l.scheduled)
		found = append(found, Cause{
			Code: CodeNoHandler, Certain: len(l.workers.silent) == 0, Klass: klass,
			Jobs: len(jobs), Sampled: l.isSampled(), JIDs: first(jobs),
			Workers: namesOf(l.workers.takers), Silent: len(l.workers.silent),
			Sentence: fmt.Sprintf("No worker that takes jobs from the queue has a handler for the klass %q,"+
				" which %s.", klass, verb(len(jobs), "job", "has", "have")),
		})
	}
	return found
}

// isSampled reports whether only some of the waiting or scheduled jobs were read.
func (l *look) isSampled() bool {
	return l.counts.Waiting > len(l.waiting) || l.counts.Scheduled > len(l.scheduled)
}

// scheduledOnly reports when the next scheduled job falls due.
func (l *look) scheduledOnly() []Cause {
	n := l.counts.Scheduled
	if n == 0 || l.parked() >= n {
		return nil
	}
	var due time.Time
	for i := range l.scheduled {
		if at := l.scheduled[i].Due; l.scheduled[i].Parked == "" && (due.IsZero() || at.Before(due)) {
			due = at
		}
	}
	c := Cause{Code: CodeScheduled, Certain: true, Jobs: n - l.parked(), Until: due}
	c.Sentence = verb(c.Jobs, "job", "is scheduled", "are scheduled")
	if !due.IsZero() {
		c.Sentence += ", the next for " + clock(due)
	}
	c.Sentence += "."
	return []Cause{c}
}

// recurring reports when the next job is due if the queue has only recurring ones.
func (l *look) recurring() []Cause {
	c := &l.counts
	if c.Recurring == 0 || c.Waiting+c.Running+c.Stalled+c.Scheduled+c.Depends > 0 {
		return nil
	}
	return []Cause{{
		Code: CodeRecurring, Certain: true, Jobs: c.Recurring, Until: l.latency.NextDue,
		Sentence: fmt.Sprintf("The queue has only %s, due next at %s.",
			count(c.Recurring, "recurring job"), clock(l.latency.NextDue)),
	}}
}

// noCause reports on jobs that nothing seems to keep waiting.
func (l *look) noCause() Cause {
	c := Cause{Jobs: l.counts.Waiting, Workers: namesOf(l.workers.takers)}
	for _, rates := range l.rates {
		c.Completed += rates.Completed
		c.Failed += rates.Failed
		c.Retried += rates.Retried
	}
	if c.Jobs == 0 {
		c.Code, c.Jobs, c.Certain = CodeRunning, l.counts.Running, true
		c.Sentence = fmt.Sprintf("%s, and none waits.", verb(c.Jobs, "job", "runs", "run"))
		return c
	}
	slots, busy := l.workers.slots()
	c.Code, c.Slots, c.Busy = CodeFlowing, slots, busy
	c.Sentence = fmt.Sprintf("Nothing seems to keep %s waiting: %s jobs from the queue,"+
		" with %d of %s in use, and %s completed in the last hour.", count(c.Jobs, "job"),
		verb(len(l.workers.takers), "worker", "takes", "take"), busy, count(slots, "slot"),
		verb(c.Completed, "run", "was", "were"))
	return c
}
