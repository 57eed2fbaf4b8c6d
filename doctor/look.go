package doctor

import (
	"context"
	"slices"
	"time"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/internal/wire"
)

// A look holds what Explain has read about a queue in addition to its state.
type look struct {
	QueueStatus
	client *qless.Client
	in     *inspect.Inspector
	now    time.Time // by the server's clock

	latency  inspect.Latency
	known    bool // only set for a queue without jobs
	workers  workforce
	limits   []inspect.LimitInfo
	groups   map[string]int
	rates    map[string]inspect.Rates // by klass
	graced   []inspect.Row
	followed []*qless.Job // the first jobs with dependencies
	ready    []*qless.Job // the first waiting or scheduled jobs
	problems []Reason     // of the queue, shared with a status
	needed   map[string]*qless.Job

	waiting, running, stalled, scheduled, depends []inspect.Row
}

// read reads all relevant data, according to the counts.
func (l *look) read(ctx context.Context) error {
	var err error
	if l.QueueCounts, err = l.client.Queue(l.Name).Counts(ctx); err != nil {
		return err
	}
	if l.latency, err = l.in.Latency(ctx, l.Name); err != nil {
		return err
	}
	l.Oldest = l.latency.Oldest
	if l.isEmpty() {
		return inOrder(ctx, l.readWorkers, l.readKnown, l.readNow, l.readProblems, l.readGroups)
	}
	return inOrder(ctx, l.readSettings, l.readWorkers, l.readJobs, l.readLimits, l.readGraced,
		l.readReady, l.readNeeded, l.readNow, l.readProblems, l.readGroups, l.readRates)
}

// inOrder calls functions until one fails.
func inOrder(ctx context.Context, steps ...func(context.Context) error) error {
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// isEmpty reports whether the queue has no jobs.
func (l *look) isEmpty() bool {
	return l.Waiting+l.Running+l.Stalled+l.Scheduled+l.Depends+l.Recurring == 0
}

// isReady reports whether workers could take jobs now, or could if a limit had free slots.
func (l *look) isReady() bool { return l.Waiting+l.Stalled+l.parked("") > 0 }

// parked counts the jobs waiting for a limit, among the jobs read, or for any limit if it is "".
func (l *look) parked(limit string) (n int) {
	for i := range l.scheduled {
		if at := l.scheduled[i].Parked; at != "" && (at == limit || limit == "") {
			n++
		}
	}
	return n
}

// readKnown looks up whether the queue is known.
func (l *look) readKnown(ctx context.Context) error {
	all, err := l.client.Queues(ctx)
	names := each(all, func(q *qless.QueueCounts) string { return q.Name })
	l.known, l.meant = slices.Contains(names, l.Name), nearly(l.Name, names)
	return err
}

func (l *look) readSettings(ctx context.Context) (err error) {
	l.settings, err = l.client.Queue(l.Name).Settings(ctx)
	l.MaxConcurrency = l.settings.MaxConcurrency
	return err
}

func (l *look) readWorkers(ctx context.Context) error {
	all, err := l.in.Workers(ctx)
	l.workers = newWorkforce(all, l.Name)
	l.setWorkers(&l.workers, servedQueues(all))
	return err
}

func (l *look) readJobs(ctx context.Context) error {
	return l.readLists(ctx, inspect.JobLists()...)
}

// readLists reads the first jobs of each given list, unless the list is empty or was read before.
func (l *look) readLists(ctx context.Context, lists ...inspect.List) error {
	rows := map[inspect.List]*[]inspect.Row{
		inspect.Waiting: &l.waiting, inspect.Running: &l.running, inspect.Stalled: &l.stalled,
		inspect.Scheduled: &l.scheduled, inspect.Depends: &l.depends,
	}
	for _, list := range lists {
		into := rows[list]
		if *into != nil || list.Count(&l.QueueCounts) == 0 {
			continue
		}
		page, err := l.in.Queue(l.Name, list).List(ctx, inspect.Range{Limit: maxLooked})
		if err != nil {
			return err
		}
		*into = page.Items
	}
	return nil
}

// readLimits reads the limits that keep jobs waiting.
func (l *look) readLimits(ctx context.Context) error {
	names := limitsOf(l.scheduled)
	for _, name := range names[:min(len(names), maxLimits)] {
		info, err := l.in.Limit(ctx, name)
		if err != nil {
			return err
		}
		l.limits = append(l.limits, info)
	}
	return nil
}

// readGraced looks for running jobs with workers that have lost their locks.
func (l *look) readGraced(ctx context.Context) error {
	if len(l.running) == 0 {
		return nil
	}
	jobs, err := l.client.Jobs(ctx, jidsOf(l.running)...)
	l.graced = slices.DeleteFunc(slices.Clone(l.running), func(row inspect.Row) bool {
		return !slices.ContainsFunc(jobs, func(job *qless.Job) bool {
			last := len(job.History) - 1
			return job.JID == row.JID && last >= 0 && job.History[last].What == "timed-out" &&
				job.State == qless.StateRunning
		})
	})
	return err
}

// readReady reads the first waiting and scheduled jobs, if none is waiting or the oldest has waited
// for a minute.
func (l *look) readReady(ctx context.Context) (err error) {
	first := slices.Concat(jidsOf(l.waiting), jidsOf(l.scheduled))
	if len(first) > 0 && (len(l.waiting) == 0 || l.Oldest >= time.Minute) {
		l.ready, err = l.client.Jobs(ctx, first[:min(len(first), maxFollowed)]...)
	}
	return err
}

// readNeeded reads the parents.
func (l *look) readNeeded(ctx context.Context) (err error) {
	first := jidsOf(l.depends)
	if len(first) == 0 {
		return nil
	}
	l.followed, err = l.client.Jobs(ctx, first[:min(len(first), maxFollowed)]...)
	if err != nil {
		return err
	}
	l.needed = map[string]*qless.Job{}
	var needed []string
	for _, job := range l.followed {
		for _, jid := range job.Dependencies {
			if _, seen := l.needed[jid]; !seen && len(needed) < maxBlockers {
				l.needed[jid] = nil
				needed = append(needed, jid)
			}
		}
	}
	if len(needed) == 0 {
		return nil
	}
	jobs, err := l.client.Jobs(ctx, needed...)
	for _, job := range jobs {
		l.needed[job.JID] = job
	}
	return err
}

// readNow reads the server's time.
func (l *look) readNow(ctx context.Context) error {
	reply, err := l.client.Do(ctx, "overview", "0", "0", "0")
	if parts, ok := reply.([]any); ok && len(parts) > 0 {
		l.now = wire.AsNumber(parts[0]).Time()
	}
	return err
}

// readProblems looks for the queue's problems, as a status does.
func (l *look) readProblems(ctx context.Context) error {
	for _, find := range []func() ([]Reason, error){
		func() ([]Reason, error) { return schedules(ctx, l.client) },
		func() ([]Reason, error) { return deadly(ctx, l.client, lostOf+l.Name) },
		func() ([]Reason, error) { return heldKeys(ctx, l.client, l.now) },
		func() ([]Reason, error) { return l.lost(ctx) },
	} {
		found, err := find()
		if err := unlessDamaged(err); err != nil {
			return err
		}
		l.problems = append(l.problems, found...)
	}
	l.problems = slices.DeleteFunc(l.problems, func(r Reason) bool { return r.Queue != l.Name })
	for _, s := range searches {
		if s.figure(&l.QueueStatus) <= 0 {
			continue
		}
		found, err := s.find(l, ctx)
		if err := unlessDamaged(err); err != nil {
			return err
		}
		l.problems = append(l.problems, found...)
	}
	for i := range l.problems {
		l.problems[i].Queue, l.problems[i].Certain = l.Name, true
	}
	return nil
}

// lost looks for jobs of the queue running without locks, among the workers' first jobs. Jobs in
// the queue's lists are not checked.
func (l *look) lost(ctx context.Context) ([]Reason, error) {
	jids, err := heldJobs(ctx, l.client, l.workers.all)
	if err != nil {
		return nil, err
	}
	known := slices.Concat(jidsOf(l.running), jidsOf(l.stalled))
	jids = slices.DeleteFunc(jids, func(jid string) bool { return slices.Contains(known, jid) })
	return lostJobs(ctx, l.client, first(jids), l.Name)
}

// readGroups reads the number of jobs in each of the groups of [look.unhandledGroups].
func (l *look) readGroups(ctx context.Context) error {
	l.groups = map[string]int{}
	for _, group := range l.unhandledGroups() {
		jobs, err := l.in.Failed(group).JIDs(ctx, inspect.Range{Limit: 1})
		if err != nil {
			return err
		}
		if jobs.Total > 0 {
			l.groups[group] = jobs.Total
		}
	}
	return nil
}

// readRates counts how the queue's jobs ended in the last hour, for the klasses of runnable jobs.
func (l *look) readRates(ctx context.Context) error {
	runnable := l.runnable()
	// The client's clock is not used here. A machine with a wrong clock finds nothing.
	now := time.Now()
	for i := range runnable {
		if at := runnable[i].Since; at.After(now) {
			now = at
		}
	}
	l.rates = map[string]inspect.Rates{}
	klasses := klassesOf(runnable)
	if len(klasses) > maxRated {
		klasses = []string{""} // all klasses: this costs more
	}
	for _, klass := range klasses {
		groups, err := l.in.RatesByKlass(ctx, inspect.RateQuery{
			From: now.Add(-time.Hour), To: now.Add(time.Minute), Queue: l.Name, Klass: klass,
		})
		if err != nil {
			return err
		}
		for _, g := range groups {
			l.rates[g.Name] = g.Rates
		}
	}
	return nil
}
