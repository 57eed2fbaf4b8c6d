package doctor

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/internal/units"
)

// dependents returns the jobs, among those read, that wait for a job that matches.
func (l *look) dependents(waitsFor func(jid string) bool) (jobs []string) {
	for _, job := range l.followed {
		if slices.ContainsFunc(job.Dependencies, waitsFor) {
			jobs = append(jobs, job.JID)
		}
	}
	return jobs
}

// openBatch is the jid that the callback of an open batch depends on. No job has it.
const openBatch = "x:open"

// blockers returns the jobs of a kind that others wait for. The jobs that hold up the most come
// first.
func (l *look) blockers(isKind func(*qless.Job) bool) []Blocker {
	var found []Blocker
	for _, jid := range slices.Sorted(maps.Keys(l.needed)) {
		job := l.needed[jid]
		if job == nil || !isKind(job) {
			continue
		}
		b := Blocker{JID: jid, Klass: job.Klass, Queue: job.Queue, State: job.State}
		if job.State == qless.StateFailed && job.Failure != nil {
			b.Group = job.Failure.Group
		}
		b.Jobs = len(l.dependents(func(other string) bool { return other == jid }))
		found = append(found, b)
	}
	slices.SortStableFunc(found, func(a, b Blocker) int { return b.Jobs - a.Jobs })
	return found
}

func hasFailed(job *qless.Job) bool { return job.State == qless.StateFailed }

// isSampledDepends reports whether only some of the jobs that depend on others were read.
func (l *look) isSampledDepends() bool { return l.counts.Depends > len(l.followed) }

// failedDependencies reports the jobs that wait for failed ones.
func (l *look) failedDependencies() []Reason {
	failed := l.blockers(hasFailed)
	notNotified := l.notNotifiedJobs()
	waiting := slices.DeleteFunc(l.dependents(l.isFailed), func(jid string) bool {
		return slices.Contains(notNotified, jid)
	})
	if len(waiting) == 0 {
		return nil
	}
	var groups []string
	for _, b := range failed {
		groups = append(groups, b.Group)
	}
	slices.Sort(groups)
	return []Reason{{
		Code: ReasonFailedDependency, Certain: true, Jobs: len(waiting), Sampled: l.isSampledDepends(),
		JID: failed[0].JID, Group: failed[0].Group,
		JIDs: first(waiting), Blockers: first(failed), Groups: first(slices.Compact(groups)),
		details: ofThem(len(failed), "has", "have") + " failed",
	}}
}

// notNotifiedJobs returns the jobs that would act on the failure of a dependency, but were not
// notified of it.
func (l *look) notNotifiedJobs() (jids []string) {
	for _, job := range l.followed {
		do := job.Options.OnFailure
		acts := do == qless.OnFailureRun || do == qless.OnFailureFail
		if acts && slices.ContainsFunc(job.Dependencies, l.isFailed) {
			jids = append(jids, job.JID)
		}
	}
	return jids
}

// isFailed reports whether a job that others wait for has failed.
func (l *look) isFailed(jid string) bool {
	job := l.needed[jid]
	return job != nil && hasFailed(job)
}

// notNotified reports the jobs that were not notified of failed dependencies.
func (l *look) notNotified() []Reason {
	jids := l.notNotifiedJobs()
	if len(jids) == 0 {
		return nil
	}
	return []Reason{{
		Code: ReasonNotNotified, Certain: true, Jobs: len(jids), Sampled: l.isSampledDepends(),
		JIDs: first(jids),
	}}
}

// isOver reports whether the life of a job is over.
func (l *look) isOver(job *qless.Job) bool {
	return !job.Until.IsZero() && job.Until.Before(l.now)
}

// hasEnded reports whether a job that others wait for is complete or has outlived its lifetime.
func (l *look) hasEnded(jid string) bool {
	job := l.needed[jid]
	return job != nil && !hasFailed(job) && (job.State == qless.StateComplete || l.isOver(job))
}

// expiredUnswept reports jobs whose lives are over, and jobs that wait for others that have ended.
func (l *look) expiredUnswept() []Reason {
	var over []string
	for _, job := range slices.Concat(l.ready, l.followed) {
		if l.isOver(job) {
			over = append(over, job.JID)
		}
	}
	waiting := l.dependents(l.hasEnded)
	var parts []string
	if len(over) > 0 {
		parts = append(parts,
			verb(len(over), "job", "has outlived its lifetime", "have outlived their lifetimes"))
	}
	if len(waiting) > 0 {
		parts = append(parts, verb(len(waiting), "job", "waits", "wait")+" for others that have ended")
	}
	if parts == nil {
		return nil
	}
	jids := slices.Concat(over, waiting)
	slices.Sort(jids)
	jids = slices.Compact(jids)
	return []Reason{{
		Code: ReasonExpiredUnswept, Certain: true, Jobs: len(jids), Sampled: true, JIDs: first(jids),
		Blockers: first(l.blockers(func(job *qless.Job) bool { return l.hasEnded(job.JID) })),
		details:  strings.Join(parts, ", and "),
	}}
}

// explained counts the jobs that depend on others and have a cause of their own.
func (l *look) explained() int {
	n := 0
	for _, job := range l.followed {
		isKnown := func(jid string) bool { return jid == openBatch || l.isFailed(jid) || l.hasEnded(jid) }
		if slices.ContainsFunc(job.Dependencies, isKnown) {
			n++
		}
	}
	return n
}

// openLong is the age from which an open batch needs attention.
const openLong = 24 * time.Hour

// openBatches reports the callbacks of batches that are not committed, with the oldest.
func (l *look) openBatches() []Reason {
	r := Reason{Code: ReasonOpenBatch, Certain: true, Sampled: l.isSampledDepends()}
	for _, job := range l.followed {
		if !slices.Contains(job.Dependencies, openBatch) {
			continue
		}
		r.JIDs = append(r.JIDs, job.JID)
		if len(job.History) == 0 {
			continue
		}
		if age := l.now.Sub(job.History[0].When); r.JID == "" || age > r.age {
			r.JID, r.age, r.details = job.JID, age, units.Age(age)
		}
	}
	if r.Jobs = len(r.JIDs); r.Jobs == 0 {
		return nil
	}
	return []Reason{r}
}

// circle reports jobs, among those read, that wait for each other. Other clients can put them.
func (l *look) circle() []Reason {
	needs := map[string][]string{}
	for _, job := range slices.Concat(l.followed, slices.Collect(maps.Values(l.needed))) {
		if job != nil && job.State == qless.StateDepends {
			needs[job.JID] = job.Dependencies
		}
	}
	for _, job := range l.followed {
		if path := pathBack(needs, []string{job.JID}, map[string]bool{}); path != nil {
			next := Blocker{JID: path[1%len(path)], State: qless.StateDepends}
			return []Reason{{
				Code: ReasonCircle, Certain: true, Jobs: len(path), JID: path[0], JIDs: first(path),
				Blockers: []Blocker{next},
			}}
		}
	}
	return nil
}

// pathBack returns the jobs of a path from its last one back to its first one, or nil.
func pathBack(needs map[string][]string, path []string, seen map[string]bool) []string {
	for _, next := range needs[path[len(path)-1]] {
		if next == path[0] {
			return path
		}
		if !seen[next] {
			seen[next] = true
			if found := pathBack(needs, append(slices.Clone(path), next), seen); found != nil {
				return found
			}
		}
	}
	return nil
}

// dependencies reports the other jobs with dependencies, and the jobs that they wait for.
func (l *look) dependencies() []Reason {
	waiting := l.counts.Depends - l.explained()
	if waiting <= 0 {
		return nil
	}
	open := l.blockers(func(job *qless.Job) bool { return !hasFailed(job) && !l.hasEnded(job.JID) })
	return []Reason{{Code: ReasonDepends, Certain: true, Jobs: waiting, Blockers: first(open)}}
}

// grace reports running jobs whose locks were lost, and which other workers get when their grace
// periods end.
func (l *look) grace() []Reason {
	if len(l.graced) == 0 {
		return nil
	}
	c := Reason{
		Code: ReasonGrace, Certain: true, Jobs: len(l.graced),
		Sampled: l.counts.Running > len(l.running),
	}
	for _, job := range l.graced {
		c.JIDs = append(c.JIDs, job.JID)
		if !slices.Contains(c.Workers, job.Worker) {
			c.Workers = append(c.Workers, job.Worker)
		}
		if end := lockEnd(l.running, job.JID); c.Until.IsZero() || end.Before(c.Until) {
			c.Until = end
		}
	}
	c.JIDs, c.Workers = first(c.JIDs), first(c.Workers)
	return []Reason{c}
}

// lockEnd returns the time at which the lock on one of some jobs expires.
func lockEnd(jobs []inspect.Row, jid string) (end time.Time) {
	for i := range jobs {
		if jobs[i].JID == jid {
			end = jobs[i].Expires
		}
	}
	return end
}

// stalledLocks reports the expired locks and their workers.
func (l *look) stalledLocks() []Reason {
	if l.counts.Stalled == 0 {
		return nil
	}
	workers := workersOf(l.stalled)
	r := Reason{
		Code: ReasonStalled, Certain: true, Jobs: l.counts.Stalled, JIDs: first(jidsOf(l.stalled)),
		Workers: first(workers),
	}
	gone := slices.DeleteFunc(slices.Clone(workers), func(name string) bool {
		return slices.Contains(names(l.workers.all), name)
	})
	if len(gone) > 0 {
		r.details = list(gone)
	}
	return []Reason{r}
}

// unhandledGroups returns the failure groups for jobs of the queue whose code workers in other
// languages could not find: the groups of Python, and those of Ruby for the first klasses.
func (l *look) unhandledGroups() []string {
	var groups []string
	for _, suffix := range []string{
		"-ImportError", "-ModuleNotFoundError", "-AttributeError", "-method-missing", "-method-type",
	} {
		groups = append(groups, l.queue.Name()+suffix)
	}
	klasses := klassesOf(l.waiting, l.scheduled, l.running, l.depends)
	for _, klass := range klasses[:min(len(klasses), maxNamed)] {
		groups = append(groups, klass+":NameError")
	}
	return groups
}

// unhandled reports the jobs in these groups.
func (l *look) unhandled() []Reason {
	c := Reason{Code: ReasonUnhandled}
	for _, group := range slices.Sorted(maps.Keys(l.groups)) {
		c.Groups = append(c.Groups, group)
		c.Jobs += l.groups[group]
	}
	if c.Jobs == 0 {
		return nil
	}
	c.Groups = first(c.Groups)
	c.Group = c.Groups[0]
	return []Reason{c}
}

// A lack of completions matters after a long wait, or if many runs were futile.
const (
	longWait = 10 * time.Minute
	manyRuns = 10
)

// noCompletions reports the klasses whose jobs never complete although workers have handlers for
// them: those with many runs, and the others.
func (l *look) noCompletions() (futile, untried []Reason) {
	if len(l.workers.takers) == 0 {
		return nil, nil
	}
	runnable := l.runnable()
	read := len(l.waiting) + len(l.scheduled) + len(l.running)
	isSampled := l.counts.Waiting+l.counts.Scheduled+l.counts.Running > read
	for _, klass := range klassesOf(runnable) {
		rates := l.rates[klass]
		if rates.Completed > 0 || !l.workers.handles(klass) {
			continue
		}
		jobs := withKlass(klass, runnable)
		c := Reason{
			Code: ReasonNoCompletions, Klass: klass, Jobs: len(jobs),
			Sampled: isSampled, JIDs: first(jobs), Failed: rates.Failed, Retried: rates.Retried,
		}
		if last := lastFailure(klass, runnable); last != nil {
			c.details = last.Group
		}
		if rates.Failed > 0 {
			c.Command = "qless failed ls"
		}
		if rates.Failed+rates.Retried >= manyRuns {
			futile = append(futile, c)
		} else if l.latency.Oldest >= longWait && len(withKlass(klass, l.waiting)) > 0 {
			untried = append(untried, c)
		}
	}
	return futile, untried
}

// runnable returns the jobs that wait, and the scheduled and running ones that were retried.
func (l *look) runnable() []inspect.Row {
	isNew := func(r inspect.Row) bool { return r.Failure == nil }
	return append(slices.DeleteFunc(slices.Concat(l.scheduled, l.running), isNew), l.waiting...)
}

// lastFailure returns the last reason why jobs of a klass were retried, or nil.
func lastFailure(klass string, jobs []inspect.Row) (last *qless.Failure) {
	for i := range jobs {
		f := jobs[i].Failure
		if jobs[i].Klass == klass && f != nil && (last == nil || f.When.After(last.When)) {
			last = f
		}
	}
	return last
}
