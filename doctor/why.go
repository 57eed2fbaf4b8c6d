package doctor

import (
	"context"
	"slices"
	"time"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
)

// An Explanation lists the causes that keep the jobs of a queue waiting.
type Explanation struct {
	Queue  string            `json:"queue"`
	Counts qless.QueueCounts `json:"counts"`

	// Latency has the waiting times of the jobs ready to pop.
	Latency inspect.Latency `json:"latency"`

	// Causes has at least one cause, the likeliest first.
	Causes []Reason `json:"causes"`
}

// Limits of what Explain reads.
const (
	maxLooked   = 100 // jobs of each list
	maxFollowed = 20  // jobs to examine for dependencies or lifetimes
	maxBlockers = 200 // dependencies
	maxLimits   = 5   // limits
	maxRated    = 10  // klasses with rates read one by one
)

// Explain explains why the jobs of a queue wait. The causes are in order of likelihood: a paused
// queue, limits, workers, then the dependencies and the delays of the jobs themselves. If no job is
// ready yet, dependencies and delays come before workers. The causes include the problems of single
// jobs and schedules of the queue, as in [ReadStatus].
//
// Explain makes about twenty to sixty calls, one after another; a queue in use changes in between.
// It reads up to 100 jobs of each list of the queue, the dependencies of 20 jobs, the lives of 40,
// and 5 limits, with about 2000 commands on the server, and lists the workers (3 commands per
// worker). For a queue without jobs, it counts the jobs of all known queues (9 commands per queue).
// Like [qless.Queue.Counts], it moves due jobs; otherwise it changes nothing.
func Explain(ctx context.Context, client *qless.Client, queue string) (*Explanation, error) {
	if client == nil {
		return nil, invalid("Explain needs a client")
	}
	l := &look{client: client, in: inspect.New(client)}
	l.Name = queue
	if err := l.read(ctx); err != nil {
		return nil, err
	}
	return &Explanation{
		Queue: queue, Counts: l.QueueCounts, Latency: l.latency, Causes: l.causes(),
	}, nil
}

// causes returns the causes that keep jobs waiting, the likeliest first.
func (l *look) causes() []Reason {
	found := l.all()
	for i := range found {
		found[i].Queue = l.Name
		found[i] = found[i].explained()
	}
	return found
}

// all returns the causes without their sentences.
func (l *look) all() []Reason {
	if l.isEmpty() {
		code := ReasonEmpty
		if !l.known {
			code = ReasonUnknown
		}
		about := []Reason{{Code: code, Certain: true, details: l.meant}}
		return slices.Concat(about, l.problems, l.missingCode())
	}
	futile, untried := l.noCompletions()
	failed, notNotified := l.failedDependencies()
	outside := [][]Reason{
		l.paused(), futile, l.concurrency(), l.rate(), l.fullLimits(),
	}
	workers := [][]Reason{l.noTakers(), l.workersBusy()}
	own := [][]Reason{
		notNotified, l.expiredUnswept(), failed, l.circle(), l.openBatches(), l.dependencies(),
		l.scheduledOnly(), l.problems, l.recurring(),
	}
	locks := [][]Reason{l.grace(), l.stalledLocks()}
	other := [][]Reason{l.missingCode(), untried}

	if l.isReady() {
		workers = append(workers, l.noHandler())
	} else {
		workers, own = slices.Insert(own, 0, l.noHandler()), workers
	}
	found := slices.Concat(slices.Concat(outside, workers, own, locks, other)...)
	if len(found) == 0 || l.Waiting > 0 && !slices.ContainsFunc(found, holdsWaiting) {
		found = append(found, l.noCause())
	}
	return found
}

// holdsWaiting reports whether a cause keeps waiting jobs from running. If locks stay expired, no
// worker asks the queue for jobs.
func holdsWaiting(r Reason) bool {
	switch r.Code {
	case ReasonPaused, ReasonMaxConcurrency, ReasonMaxRate, ReasonWorkersPaused, ReasonNoWorkers,
		ReasonWorkersBusy, ReasonNoHandler, ReasonStalled, ReasonNoCompletions:
		return true
	}
	return false
}

// concurrency reports that the queue runs as many jobs as allowed, and names them.
func (l *look) concurrency() []Reason {
	found := l.QueueStatus.concurrency()
	for i := range found {
		found[i].JIDs, found[i].Workers = first(jidsOf(l.running)), workersOf(l.running)
	}
	return found
}

// fullLimits reports the limits that keep jobs waiting, starting with the most jobs.
func (l *look) fullLimits() []Reason {
	var found []Reason
	for i := range l.limits {
		r := fullLimit(&l.limits[i])
		r.Jobs, r.Sampled = l.parked(r.Limit), l.Scheduled > len(l.scheduled)
		found = append(found, r)
	}
	slices.SortStableFunc(found, func(a, b Reason) int { return b.Jobs - a.Jobs })
	return found
}

// noTakers reports that no known worker takes the queue's jobs, and names former or idle workers.
func (l *look) noTakers() []Reason {
	found := l.QueueStatus.noTakers()
	for i := range found {
		r := &found[i]
		switch {
		case r.Code == ReasonWorkersPaused:
			r.Workers = namesOf(l.workers.idle)
		case len(l.silentAtWork()) > 0:
			return nil
		case len(l.workers.gone) > 0:
			r.details, r.Command = "Gone: "+list(names(l.workers.gone))+".", ""
		}
	}
	return found
}

// silentAtWork returns the unregistered workers with jobs of the queue.
func (l *look) silentAtWork() []string {
	return slices.DeleteFunc(workersOf(l.running), func(name string) bool {
		return !l.workers.isSilent(name)
	})
}

// workersBusy reports that no worker has a free slot, or may have none because unregistered workers
// run jobs of the queue.
func (l *look) workersBusy() []Reason {
	atWork := l.silentAtWork()
	switch {
	case l.Waiting == 0:
	case len(l.workers.takers) > 0 && l.workers.isBusy():
		r := l.ofWorkers(ReasonWorkersBusy)
		r.Workers = namesOf(l.workers.takers)
		r.Slots, r.Busy = l.workers.slots()
		r.details = verb(len(l.workers.takers), "worker", "takes", "take")
		return []Reason{r}
	case len(l.workers.takers) == 0 && len(atWork) > 0:
		r := l.ofWorkers(ReasonWorkersBusy)
		r.Certain, r.Workers, r.Busy = false, atWork, len(l.running)
		r.details = verb(len(atWork), "worker", "runs", "run")
		return []Reason{r}
	}
	return nil
}

// noHandler reports the klasses without a handler. Jobs released for lack of a handler are
// scheduled for some seconds.
func (l *look) noHandler() []Reason {
	if len(l.workers.takers) == 0 {
		return nil
	}
	var found []Reason
	ready := slices.Concat(l.waiting, l.scheduled)
	for _, klass := range klassesOf(ready) {
		if l.workers.handles(klass) {
			continue
		}
		jobs := withKlass(klass, ready)
		r := l.ofWorkers(ReasonNoHandler)
		r.Workers = namesOf(l.workers.takers)
		r.Klass, r.Jobs, r.Sampled, r.JIDs = klass, len(jobs), l.isSampled(), first(jobs)
		found = append(found, r)
	}
	return found
}

// isSampled reports whether only some of the waiting or scheduled jobs were read.
func (l *look) isSampled() bool {
	return l.Waiting > len(l.waiting) || l.Scheduled > len(l.scheduled)
}

// scheduledOnly reports when the next scheduled job falls due.
func (l *look) scheduledOnly() []Reason {
	n := l.Scheduled
	if n -= l.parked(""); n <= 0 {
		return nil
	}
	var due time.Time
	for i := range l.scheduled {
		if at := l.scheduled[i].Due; l.scheduled[i].Parked == "" && (due.IsZero() || at.Before(due)) {
			due = at
		}
	}
	return []Reason{{Code: ReasonScheduled, Certain: true, Jobs: n, Until: due}}
}

// recurring reports when the next job is due if the queue has only recurring jobs.
func (l *look) recurring() []Reason {
	if l.Recurring == 0 || l.Waiting+l.Running+l.Stalled+l.Scheduled+l.Depends > 0 {
		return nil
	}
	return []Reason{{
		Code: ReasonRecurring, Certain: true, Jobs: l.Recurring, Until: l.latency.NextDue,
	}}
}

// noCause reports waiting jobs without an apparent cause.
func (l *look) noCause() Reason {
	r := Reason{Jobs: l.Waiting, Workers: namesOf(l.workers.takers)}
	for _, rates := range l.rates {
		r.Completed += rates.Completed
		r.Failed += rates.Failed
		r.Retried += rates.Retried
	}
	if r.Jobs == 0 {
		r.Code, r.Jobs, r.Certain = ReasonRunning, l.Running, true
		return r
	}
	r.Code, r.details = ReasonFlowing, verb(len(l.workers.takers), "worker", "takes", "take")
	r.Slots, r.Busy = l.workers.slots()
	return r
}
