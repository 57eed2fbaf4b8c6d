package doctor

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/internal/units"
)

// waitsFor reports whether a job waits for a matching parent, among the parents read.
func (l *look) waitsFor(job *qless.Job, matches func(*qless.Job) bool) bool {
	return slices.ContainsFunc(job.Dependencies, func(jid string) bool {
		return l.needed[jid] != nil && matches(l.needed[jid])
	})
}

// openBatch is the jid on which the callback of an open batch depends. No job has this jid.
const openBatch = "x:open"

// blockers returns the parents of a kind, starting with the worst blockers.
func (l *look) blockers(isKind func(*qless.Job) bool) []Blocker {
	var found []Blocker
	for _, jid := range slices.Sorted(maps.Keys(l.needed)) {
		job := l.needed[jid]
		if job == nil || !isKind(job) {
			continue
		}
		b := Blocker{JID: jid, Klass: job.Klass, Queue: job.Queue, State: job.State}
		if hasFailed(job) && job.Failure != nil {
			b.Group = job.Failure.Group
		}
		for _, other := range l.followed {
			if slices.Contains(other.Dependencies, jid) {
				b.Jobs++
			}
		}
		found = append(found, b)
	}
	slices.SortStableFunc(found, func(a, b Blocker) int { return b.Jobs - a.Jobs })
	return found
}

func hasFailed(job *qless.Job) bool { return job.State == qless.StateFailed }

// isSampledDepends reports whether only some of the jobs with dependencies were read.
func (l *look) isSampledDepends() bool { return l.Depends > len(l.followed) }

// failedDependencies reports the jobs with failed parents, and the jobs that should have acted on
// such a failure but were not notified.
func (l *look) failedDependencies() (waiting, notNotified []Reason) {
	var stuck, silent []string
	for _, job := range l.followed {
		do := job.Options.OnFailure
		switch {
		case !l.waitsFor(job, hasFailed):
		case do == qless.OnFailureRun || do == qless.OnFailureFail:
			silent = append(silent, job.JID)
		default:
			stuck = append(stuck, job.JID)
		}
	}
	of := func(code ReasonCode, jids []string) []Reason {
		if len(jids) == 0 {
			return nil
		}
		return []Reason{{
			Code: code, Certain: true, Jobs: len(jids), Sampled: l.isSampledDepends(), JIDs: first(jids),
		}}
	}
	waiting, notNotified = of(ReasonFailedDependency, stuck), of(ReasonNotNotified, silent)
	for i := range waiting {
		waiting[i].blame(l.blockers(hasFailed))
	}
	return waiting, notNotified
}

// blame adds the failed parents.
func (r *Reason) blame(failed []Blocker) {
	for _, b := range failed {
		r.Groups = append(r.Groups, b.Group)
	}
	slices.Sort(r.Groups)
	r.Groups, r.Blockers = first(slices.Compact(r.Groups)), first(failed)
	r.JID, r.Group = failed[0].JID, failed[0].Group
	r.details = fmt.Sprintf("%d have failed", len(failed))
	if len(failed) == 1 {
		r.details = "1 has failed"
	}
}

// isOver reports whether a job's lifetime is over.
func (l *look) isOver(job *qless.Job) bool {
	return !job.Until.IsZero() && job.Until.Before(l.now)
}

// hasEnded reports whether a parent is complete or has outlived its lifetime.
func (l *look) hasEnded(job *qless.Job) bool {
	return !hasFailed(job) && (job.State == qless.StateComplete || l.isOver(job))
}

// expiredUnswept reports jobs with ended lifetimes, and jobs with ended parents.
func (l *look) expiredUnswept() []Reason {
	var over, waiting, parts []string
	for _, job := range slices.Concat(l.ready, l.followed) {
		if l.isOver(job) {
			over = append(over, job.JID)
		}
	}
	for _, job := range l.followed {
		if l.waitsFor(job, l.hasEnded) {
			waiting = append(waiting, job.JID)
		}
	}
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
		Blockers: first(l.blockers(l.hasEnded)), details: strings.Join(parts, ", and "),
	}}
}

// openLong is the age from which an open batch needs attention.
const openLong = 24 * time.Hour

// openBatches reports the callbacks of uncommitted batches, and the oldest one.
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

// circle reports jobs waiting for each other, among the jobs read. Classic clients can put them.
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

// stuck looks for jobs waiting for failed parents, for each other, or for a long-open batch.
func (l *look) stuck(ctx context.Context) ([]Reason, error) {
	if err := l.readLists(ctx, inspect.Depends); err != nil {
		return nil, err
	}
	err := l.readNeeded(ctx)
	isYoung := func(r Reason) bool { return r.age < openLong }
	batches := slices.DeleteFunc(l.openBatches(), isYoung)
	failed, _ := l.failedDependencies()
	return slices.Concat(failed, l.circle(), batches), err
}

// pathBack extends a path until it leads back to its first job, and returns it, or nil.
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

// dependencies reports the remaining jobs with dependencies, and their parents.
func (l *look) dependencies() []Reason {
	isKnown := func(job *qless.Job) bool { return hasFailed(job) || l.hasEnded(job) }
	waiting := l.Depends
	for _, job := range l.followed {
		if slices.Contains(job.Dependencies, openBatch) || l.waitsFor(job, isKnown) {
			waiting-- // a cause of its own
		}
	}
	if waiting <= 0 {
		return nil
	}
	open := l.blockers(func(job *qless.Job) bool { return !isKnown(job) })
	return []Reason{{Code: ReasonDepends, Certain: true, Jobs: waiting, Blockers: first(open)}}
}

// grace reports running jobs with lost locks. Other workers take them when the grace periods end.
func (l *look) grace() []Reason {
	if len(l.graced) == 0 {
		return nil
	}
	next := slices.MinFunc(l.graced, func(a, b inspect.Row) int {
		return a.Expires.Compare(b.Expires)
	})
	return []Reason{{
		Code: ReasonGrace, Certain: true, Jobs: len(l.graced), Sampled: l.Running > len(l.running),
		JIDs: first(jidsOf(l.graced)), Workers: first(workersOf(l.graced)), Until: next.Expires,
	}}
}

// stalledLocks reports the expired locks and their workers.
func (l *look) stalledLocks() []Reason {
	if l.Stalled == 0 {
		return nil
	}
	workers := workersOf(l.stalled)
	r := Reason{
		Code: ReasonStalled, Certain: true, Jobs: l.Stalled, JIDs: first(jidsOf(l.stalled)),
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

// unhandledGroups returns the failure groups for jobs of the queue with code that classic workers
// could not load: the groups of Python, and of Ruby for the first klasses.
func (l *look) unhandledGroups() []string {
	var groups []string
	for _, suffix := range []string{
		"-ImportError", "-ModuleNotFoundError", "-AttributeError", "-method-missing", "-method-type",
	} {
		groups = append(groups, l.Name+suffix)
	}
	klasses := klassesOf(slices.Concat(l.waiting, l.scheduled, l.running, l.depends))
	for _, klass := range klasses[:min(len(klasses), maxNamed)] {
		groups = append(groups, klass+":NameError")
	}
	return groups
}

// missingCode reports the jobs in the groups of [look.unhandledGroups].
func (l *look) missingCode() []Reason {
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

// noCompletions reports the klasses with handlers but without completed jobs. The futile ones have
// had many runs, and the untried ones a long wait.
func (l *look) noCompletions() (futile, untried []Reason) {
	if len(l.workers.takers) == 0 {
		return nil, nil
	}
	runnable := l.runnable()
	read := len(l.waiting) + len(l.scheduled) + len(l.running)
	isSampled := l.Waiting+l.Scheduled+l.Running > read
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
		} else if l.Oldest >= longWait && len(withKlass(klass, l.waiting)) > 0 {
			untried = append(untried, c)
		}
	}
	return futile, untried
}

// runnable returns the waiting jobs, and the retried jobs among the scheduled and running ones.
func (l *look) runnable() []inspect.Row {
	isNew := func(r inspect.Row) bool { return r.Failure == nil }
	return append(slices.DeleteFunc(slices.Concat(l.scheduled, l.running), isNew), l.waiting...)
}

// lastFailure returns the latest failure behind a retry of a klass, or nil.
func lastFailure(klass string, jobs []inspect.Row) (last *qless.Failure) {
	for i := range jobs {
		f := jobs[i].Failure
		if jobs[i].Klass == klass && f != nil && (last == nil || f.When.After(last.When)) {
			last = f
		}
	}
	return last
}
