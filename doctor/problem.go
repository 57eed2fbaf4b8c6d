package doctor

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/internal/keys"
	"github.com/qless/qless-go/internal/units"
)

// Thresholds of problems, also used by checks.
const (
	// Late is the wait from which jobs are late, if not set otherwise.
	Late = 5 * time.Minute

	// MemoryLow is the share of used memory from which memory is low.
	MemoryLow = 0.8

	// ManyFailed is the number of failed jobs that is a problem even if few jobs are failing.
	ManyFailed = 100
)

// Failures need attention if their share of the runs exceeds failingShare, and their number per
// minute reaches failingRate. They are urgent if they also reach lostShare or lostRate.
const (
	failingShare, failingRate = 0.1, 1
	lostShare, lostRate       = 0.5, 10
)

// retriedShare is the share of the runs above which retries need attention, at the same rates.
// Retries are urgent if nothing completes.
const retriedShare = 0.5

// unworked is the longest that jobs may wait without a worker, since deploys replace workers.
const unworked = time.Minute

// grave returns the gravity of a problem.
func grave(urgent bool) Gravity {
	if urgent {
		return Urgent
	}
	return Attention
}

// problems returns the problems of the namespace, in order.
func (s *Status) problems(late time.Duration) []Reason {
	found := slices.Concat(
		s.found, s.memoryProblems(), s.refusal(), s.damagedKeys(), s.queueProblems(late),
		s.outboxProblems(late))
	if !has(found, ReasonFailing) {
		found = append(found, s.manyFailed()...)
	}
	for i := range s.FullLimits {
		if limit := &s.FullLimits[i]; !passes(limit, late) {
			found = append(found, fullLimit(limit))
		}
	}
	for i := range found {
		found[i] = found[i].inStatus()
	}
	slices.SortStableFunc(found, func(a, b Reason) int { return CompareReasons(&a, &b) })
	return found
}

func has(found []Reason, code ReasonCode) bool {
	return slices.ContainsFunc(found, func(r Reason) bool { return r.Code == code })
}

// manyFailed reports many failed jobs that need a person.
func (s *Status) manyFailed() []Reason {
	failed := s.Failed()
	if failed < ManyFailed {
		return nil
	}
	largest := s.Failures[0]
	r := Reason{
		Code: ReasonFailed, Group: largest.Name, Jobs: failed, details: fmt.Sprint(largest.Jobs),
	}
	if 2*largest.Jobs > failed {
		r.Command = r.command("qless failed show {group}")
	}
	return []Reason{r}
}

// memoryProblems returns the problems of the server's memory. Low memory is urgent if the server
// will delete jobs.
func (s *Status) memoryProblems() []Reason {
	memory := &s.Memory
	if memory.Max == 0 {
		return nil
	}
	found := memoryReasons(float64(memory.Used), float64(memory.Max), memory.Policy)
	for i := range found {
		found[i].Gravity = grave(found[i].Code == ReasonMemoryFull ||
			found[i].Code == ReasonMemoryLow && has(found, ReasonEvicts))
	}
	return found
}

// Error codes of a server that refuses every change.
const (
	misconf    = "MISCONF"
	noReplicas = "NOREPLICAS"
	readOnly   = "READONLY"
)

func (s *Status) refusal() []Reason {
	if s.Refuses == "" {
		return nil
	}
	return []Reason{{Code: ReasonRefused, Gravity: Urgent, details: map[string]string{
		misconf:    "the server can't write to its disk",
		readOnly:   "the server is a replica of " + s.master,
		noReplicas: "no replica follows the server",
	}[s.Refuses]}}
}

func (s *Status) damagedKeys() []Reason {
	var found []Reason
	for _, damaged := range s.Damaged {
		found = append(found, Reason{
			Code: ReasonDamaged, Gravity: Urgent, Key: damaged.Key,
			Queue: queueOfKey(s.Namespace, damaged.Key), details: damaged.Kind,
		})
	}
	return found
}

// queueOfKey returns the queue of the jobs in a key, or the empty string.
func queueOfKey(namespace, key string) string {
	found, known := keys.Of(strings.TrimPrefix(key, namespace), keys.ZSet)
	if !known || !strings.HasPrefix(found.Pattern, "q:") {
		return ""
	}
	return found.Name("queue")
}

// queueProblems returns the problems of the queues, each cause once.
func (s *Status) queueProblems(late time.Duration) []Reason {
	byCode := map[ReasonCode][]Reason{}
	for i := range s.Queues {
		for _, r := range s.Queues[i].problems(late) {
			r.Queue, r.age = s.Queues[i].Name, s.Queues[i].Oldest
			byCode[r.Code] = append(byCode[r.Code], r)
		}
	}
	var found []Reason
	for _, some := range byCode {
		slices.SortStableFunc(some, func(a, b Reason) int {
			return cmp.Or(cmp.Compare(b.age, a.age), b.Jobs-a.Jobs)
		})
		r := shared(some)
		if r.Code == ReasonFailing {
			r.Group = s.failing
		}
		found = append(found, r)
	}
	return found
}

// shared merges the same problem of several queues.
func shared(some []Reason) Reason {
	all := some[0]
	if len(some) == 1 {
		return all
	}
	all.Jobs, all.perMinute, all.Command = 0, 0, ""
	for _, r := range some {
		all.Queues = append(all.Queues, r.Queue)
		all.Jobs += r.Jobs
		all.perMinute += r.perMinute
		if r.Urgent() {
			all.Gravity = Urgent
		}
	}
	if all.perMinute > 0 {
		all.Jobs = int(math.Round(all.perMinute))
	}
	return all
}

// problems returns the problems of a queue.
func (q *QueueStatus) problems(late time.Duration) []Reason {
	return slices.Concat(q.waitProblems(late), q.runProblems(), q.found)
}

// isWaiting reports whether jobs wait or recurring jobs are due.
func (q *QueueStatus) isWaiting() bool { return q.Waiting > 0 || q.Oldest > 0 }

func (q *QueueStatus) paused() []Reason {
	if !q.Paused {
		return nil
	}
	return []Reason{{Code: ReasonPaused, Certain: true, Jobs: q.Waiting}}
}

// concurrency reports that the queue runs as many jobs as allowed.
func (q *QueueStatus) concurrency() []Reason {
	most := q.MaxConcurrency
	if most == 0 || q.Running < most || !q.isWaiting() {
		return nil
	}
	return []Reason{{
		Code: ReasonMaxConcurrency, Certain: true, Jobs: q.Waiting, Max: most, Busy: q.Running,
	}}
}

// rate reports that the queue has started as many jobs as allowed.
func (q *QueueStatus) rate() []Reason {
	if q.settings.NextStart.IsZero() || !q.isWaiting() {
		return nil
	}
	return []Reason{{
		Code: ReasonMaxRate, Certain: true, Jobs: q.Waiting, Max: q.settings.MaxRate,
		Until: q.settings.NextStart, details: q.settings.Per.String(),
	}}
}

// noTakers reports that no known worker takes jobs from the queue, or that all such workers are
// paused or stopping.
func (q *QueueStatus) noTakers() []Reason {
	switch {
	case q.Workers > 0:
		return nil
	case q.idle > 0:
		return []Reason{q.ofWorkers(ReasonWorkersPaused)}
	}
	r := q.ofWorkers(ReasonNoWorkers)
	if q.meant != "" {
		r.details = "Did you mean " + q.meant + ", which has workers?"
		r.Command = "qless queue move " + units.Quote(q.Name) + " " + units.Quote(q.meant)
	}
	return []Reason{r}
}

// ofWorkers returns a reason for jobs to wait for workers, certain only if all listed workers are
// registered.
func (q *QueueStatus) ofWorkers(code ReasonCode) Reason {
	return Reason{Code: code, Certain: q.silent == 0, Jobs: q.Waiting, Silent: q.silent}
}

// waitProblems returns the problems of jobs waiting for workers: the first certain cause, or
// lateness.
func (q *QueueStatus) waitProblems(late time.Duration) []Reason {
	var found []Reason
	isLate, lateness := q.Oldest >= late, ""
	causes := slices.DeleteFunc(
		slices.Concat(q.paused(), q.noTakers(), q.concurrency(), q.rate()),
		func(r Reason) bool { return !r.Certain })
	switch {
	case !q.isWaiting():
	case len(causes) > 0:
		r := causes[0]
		if r.Code == ReasonMaxConcurrency || r.Code == ReasonMaxRate {
			r.Gravity = grave(isLate)
		}
		if q.Oldest >= unworked || r.Code != ReasonNoWorkers && r.Code != ReasonWorkersPaused {
			found = append(found, r)
		}
	case isLate && q.Stalled > 0: // The expired locks are the cause.
		lateness = fmt.Sprintf(", and %s, the oldest for %s", waits(q.Waiting), units.Age(q.Oldest))
	case isLate:
		found = append(found, Reason{Code: ReasonOld, Jobs: q.Waiting})
	}
	if q.unhandled != "" {
		found = append(found, Reason{Code: ReasonNoHandler, Klass: q.unhandled})
	}
	if q.Stalled > 0 && !has(found, ReasonNoWorkers) {
		found = append(found, Reason{Code: ReasonStalled, Jobs: q.Stalled, details: lateness})
	}
	return found
}

// runProblems returns the problem of runs that don't complete.
func (q *QueueStatus) runProblems() []Reason {
	completed, failed, retried := q.Rates.Completed, q.Rates.Failed, q.Rates.Retried
	all := completed + failed + retried
	problem := func(code ReasonCode, urgent bool, n float64) []Reason {
		return []Reason{{
			Code: code, Gravity: grave(urgent), Jobs: int(math.Round(n)), perMinute: n,
			rate: 100 * n / all, details: units.Rate(n),
		}}
	}
	switch {
	case failed >= failingRate && failed > failingShare*all:
		return problem(ReasonFailing, failed >= lostRate || failed >= lostShare*all, failed)
	case retried >= failingRate && retried > retriedShare*all:
		return problem(ReasonRetrying, retried >= lostRate && completed == 0, retried)
	}
	return nil
}

// ofSchedule returns the problem of an overdue schedule, or of a schedule without followers.
func ofSchedule(schedule *inspect.ScheduleInfo) Reason {
	r := Reason{
		Code: ReasonScheduleUnfollowed, Queue: schedule.Queue, Schedule: schedule.ID,
		Until: schedule.Next,
	}
	if schedule.Overdue > 0 {
		r.Code, r.Until = ReasonScheduleMissed, time.Time{}
		r.details = count(schedule.Overdue, "run") + ", and " + followers(len(schedule.Followers))
	}
	return r
}

func followers(n int) string {
	if n == 0 {
		return "no worker follows it"
	}
	return verb(n, "worker", "follows", "follow") + " it"
}

// passes reports whether a limit only spreads jobs over time: at its rate, all parked jobs can
// start before they are late.
func passes(limit *inspect.LimitInfo, late time.Duration) bool {
	c := limit.Config
	if c.Rate == 0 || !limit.HeldUntil.IsZero() || c.Concurrency > 0 && limit.Used >= c.Concurrency {
		return false
	}
	return time.Duration(float64(limit.Parked)/float64(c.Rate)*float64(c.Per)) <= late
}

// fullLimit reports a limit that keeps jobs waiting.
func fullLimit(limit *inspect.LimitInfo) Reason {
	config := limit.Config
	r := Reason{
		Code: ReasonLimitFull, Certain: true, Limit: limit.Name, Jobs: limit.Parked,
		JIDs: first(limit.Running), Busy: len(limit.Running), Until: limit.Next,
	}
	switch {
	case !limit.HeldUntil.IsZero():
		r.Until = limit.HeldUntil
	case !limit.Next.IsZero():
		r.Max, r.details = config.Rate, config.Per.String()
	case config.Concurrency > 0 && len(limit.Running) >= config.Concurrency:
		r.Max = config.Concurrency
	default:
		r.Certain = false
	}
	return r
}
