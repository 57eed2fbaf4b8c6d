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

// A Problem is a cause of harm that needs a person's attention. A cause that several queues share
// is one problem.
type Problem struct {
	// Code is memory_full, refused, damaged, no_workers, no_handler, stalled, old, failing,
	// retrying, failed_dependency, schedule_missed, outbox, memory_low, evicts, limit_full, max_rate,
	// max_concurrency, paused, failed, unique_held or distant. Programs may rely on it.
	Code string `json:"code"`

	// Queue is the queue that it harms most. Queues are set if it harms several, the most harmed
	// first.
	Queue  string   `json:"queue,omitempty"`
	Queues []string `json:"queues,omitempty"`

	Limit    string `json:"limit,omitempty"`
	Schedule string `json:"schedule,omitempty"`
	Group    string `json:"group,omitempty"` // the failure group with most of the jobs
	Key      string `json:"key,omitempty"`   // a damaged key

	// JID is a job that holds up others, because it has failed, holds a slot of a full limit, or
	// holds a unique key, or a job that is distant.
	JID string `json:"jid,omitempty"`

	// Jobs is the number of jobs that wait because of it, or that fail or are retried per minute.
	Jobs int `json:"jobs,omitempty"`

	// Urgent means that jobs will be late or lost unless an operator acts.
	Urgent bool `json:"urgent"`

	// Sentence describes it in words.
	Sentence string `json:"sentence"`

	// Command has the words, after "qless", of the command that repairs it or shows more.
	Command []string `json:"command,omitempty"`

	age  time.Duration // of the oldest waiting job
	rate float64       // of failures or retries per minute
}

// problemCodes are the codes of problems, the gravest first.
var problemCodes = []string{
	"memory_full", "refused", "damaged", "no_workers", "no_handler", "stalled", "old", "failing",
	"retrying", "failed_dependency", "schedule_missed", "outbox", "memory_low", "evicts", "limit_full",
	"max_rate", "max_concurrency", "paused", "failed", "unique_held", "distant",
}

// ProblemCodes returns the codes of problems, the gravest first.
func ProblemCodes() []string { return slices.Clone(problemCodes) }

// Failures need attention if both their share of the runs and their number per minute exceed the
// first pair. They are urgent if one of them reaches the second.
const (
	failingShare, failingRate = 0.1, 1
	lostShare, lostRate       = 0.5, 10
)

// retriedShare is the share of the runs above which retries need attention, at the same rates. They
// are urgent if nothing completes.
const retriedShare = 0.5

// unworked is the longest that jobs may wait without a worker: deploys replace workers.
const unworked = time.Minute

// CompareProblems orders problems: urgent ones first, then by gravity, then by the number of jobs
// that they harm.
func CompareProblems(a, b *Problem) int {
	if a.Urgent != b.Urgent && a.Urgent {
		return -1
	} else if a.Urgent != b.Urgent {
		return 1
	}
	return cmp.Or(
		slices.Index(problemCodes, a.Code)-slices.Index(problemCodes, b.Code), b.Jobs-a.Jobs)
}

// problems returns the problems of the namespace, in order.
func (s *Status) problems(late time.Duration) []Problem {
	found := slices.Concat(
		s.memoryProblems(), s.refusal(), s.damagedKeys(), s.queueProblems(late), s.heldKeys(),
		s.outboxProblems(late))
	if !has(found, "failing") {
		found = append(found, s.manyFailed()...)
	}
	for i := range s.FullLimits {
		if limit := &s.FullLimits[i]; !passes(limit, late) {
			found = append(found, fullLimit(limit))
		}
	}
	for _, schedule := range s.overdue {
		found = append(found, missed(schedule))
	}
	slices.SortStableFunc(found, func(a, b Problem) int { return CompareProblems(&a, &b) })
	return found
}

func has(problems []Problem, code string) bool {
	return slices.ContainsFunc(problems, func(p Problem) bool { return p.Code == code })
}

// manyFailures is the number of failed jobs that is a problem even if few jobs are failing.
const manyFailures = 100

// manyFailed reports that many failed jobs wait for a person.
func (s *Status) manyFailed() []Problem {
	failed := s.Failed()
	if failed < manyFailures {
		return nil
	}
	largest := s.Failures[0]
	command := []string{"failed", "ls"}
	if 2*largest.Jobs > failed {
		command = []string{"failed", "show", largest.Name}
	}
	return []Problem{{
		Code: "failed", Group: largest.Name, Jobs: failed, Command: command,
		Sentence: fmt.Sprintf("%d jobs have failed and wait to be retried or canceled, %d of them in %s",
			failed, largest.Jobs, largest.Name),
	}}
}

// memoryLow is the share of used memory at which memory is low.
const memoryLow = 0.8

func (s *Status) memoryProblems() []Problem {
	memory := &s.Memory
	if memory.Max == 0 {
		return nil
	}
	share := float64(memory.Used) / float64(memory.Max)
	look := []string{"check", "server"}
	evicts := memory.Policy != "" && memory.Policy != "noeviction"
	var found []Problem
	switch {
	case share >= 1 && evicts:
		found = append(found, Problem{
			Code: "memory_full", Urgent: true, Command: look, Sentence: fmt.Sprintf(
				"the server's memory is full (%.0f %%): it deletes jobs by its policy %s",
				100*share, memory.Policy),
		})
	case share >= 1:
		found = append(found, Problem{
			Code: "memory_full", Urgent: true, Command: look, Sentence: fmt.Sprintf(
				"the server's memory is full (%.0f %%): puts are refused", 100*share),
		})
	case share >= memoryLow:
		found = append(found, Problem{
			Code: "memory_low", Command: look, Urgent: evicts,
			Sentence: fmt.Sprintf("%.0f %% of the server's memory is used", 100*share),
		})
	}
	if evicts {
		found = append(found, Problem{
			Code: "evicts", Command: []string{"doctor"}, Sentence: fmt.Sprintf(
				"the server deletes jobs when its memory is full: its policy is %s, not noeviction",
				memory.Policy),
		})
	}
	return found
}

// The codes of the errors of a server that refuses every change.
const (
	misconf    = "MISCONF"
	noReplicas = "NOREPLICAS"
	readOnly   = "READONLY"
)

func (s *Status) refusal() []Problem {
	p := Problem{Code: "refused", Urgent: true, Command: []string{"check", "server"}}
	switch s.Refuses {
	case misconf:
		p.Sentence = "the server can't write to its disk: it refuses puts, and workers get no jobs"
	case readOnly:
		p.Sentence = "the server is a replica of " + s.master +
			": it refuses puts, and workers get no jobs"
	case noReplicas:
		p.Sentence = "no replica follows the server: it refuses puts, and workers get no jobs"
	default:
		return nil
	}
	return []Problem{p}
}

func (s *Status) damagedKeys() []Problem {
	var found []Problem
	for _, damaged := range s.Damaged {
		found = append(found, Problem{
			Code: "damaged", Key: damaged.Key, Queue: queueOfKey(s.Namespace, damaged.Key), Urgent: true,
			Command: []string{"doctor"}, Sentence: fmt.Sprintf(
				"the key %s is damaged: it is a %s", damaged.Key, damaged.Kind),
		})
	}
	return found
}

// queueOfKey returns the queue whose jobs a key holds, or the empty string.
func queueOfKey(namespace, key string) string {
	found, known := keys.Of(strings.TrimPrefix(key, namespace), keys.ZSet)
	if !known || !strings.HasPrefix(found.Pattern, "q:") {
		return ""
	}
	return found.Name("queue")
}

// queueProblems returns the problems of the queues, each cause once.
func (s *Status) queueProblems(late time.Duration) []Problem {
	byCode := map[string][]Problem{}
	for i := range s.Queues {
		for _, p := range s.Queues[i].problems(late, s.Workers.Silent) {
			p.Queue = s.Queues[i].Name
			byCode[p.Code] = append(byCode[p.Code], p)
		}
	}
	var found []Problem
	for _, code := range problemCodes {
		some := byCode[code]
		if len(some) == 0 {
			continue
		}
		slices.SortStableFunc(some, func(a, b Problem) int {
			return cmp.Or(cmp.Compare(b.age, a.age), b.Jobs-a.Jobs)
		})
		p := some[0]
		if len(some) > 1 {
			p = shared(some)
		} else {
			p.Sentence = "queue " + p.Queue + " " + p.Sentence
		}
		if code == "failing" && s.failing != "" {
			p.Group, p.Command = s.failing, []string{"failed", "show", s.failing}
			p.Sentence += ", most in " + s.failing
		}
		found = append(found, p)
	}
	return found
}

// shared merges the same problem of several queues into one.
func shared(some []Problem) Problem {
	all := some[0]
	all.Jobs = 0
	rate := 0.0
	for _, p := range some {
		all.Queues = append(all.Queues, p.Queue)
		all.Jobs += p.Jobs
		rate += p.rate
		all.Urgent = all.Urgent || p.Urgent
	}
	if rate > 0 {
		all.Jobs = int(math.Round(rate))
	}
	wait := fmt.Sprintf("%s, the oldest for %s", waits(all.Jobs), units.Age(all.age))
	does := map[string]string{
		"no_workers":        "have no workers: " + wait,
		"no_handler":        "have jobs of klasses for which no worker has a handler",
		"stalled":           fmt.Sprintf("have %s: did workers die?", expired(all.Jobs)),
		"old":               "are late: " + wait,
		"failing":           fmt.Sprintf("fail more than 10 %% of their jobs, %d a minute", all.Jobs),
		"retrying":          fmt.Sprintf("retry more than half of their runs, %d a minute", all.Jobs),
		"failed_dependency": fmt.Sprintf("have %s waiting for failed ones", count(all.Jobs, "job")),
		"max_rate":          "are at their max-rate: " + waits(all.Jobs),
		"max_concurrency":   "are at their max-concurrency: " + waits(all.Jobs),
		"paused":            "are paused: " + wait,
		"distant":           "have jobs that are not due for a long time, such as " + all.JID,
	}[all.Code]
	all.Sentence = fmt.Sprintf("%d queues (%s) %s", len(some), list(all.Queues), does)
	return all
}

// problems returns the problems of a queue; silent is the number of unregistered workers.
func (q *QueueStatus) problems(late time.Duration, silent int) []Problem {
	return slices.Concat(q.waitProblems(late, silent), q.runProblems(), q.jobProblems())
}

// problem returns a problem of the queue, which qless why explains.
func (q *QueueStatus) problem(
	code string, urgent bool, jobs int, sentence string, args ...any,
) Problem {
	return Problem{
		Code: code, Urgent: urgent, Jobs: jobs, Command: []string{"why", q.Name},
		Sentence: fmt.Sprintf(sentence, args...), age: q.Oldest,
	}
}

// waitProblems returns the problems of jobs that wait for workers.
func (q *QueueStatus) waitProblems(late time.Duration, silent int) []Problem {
	var found []Problem
	add := func(code string, urgent bool, jobs int, sentence string, args ...any) {
		found = append(found, q.problem(code, urgent, jobs, sentence, args...))
	}
	wait, lateness := fmt.Sprintf("%s, the oldest for %s", waits(q.Waiting), units.Age(q.Oldest)), ""
	switch {
	case q.Waiting <= 0 && q.Oldest <= 0:
	case q.Paused:
		add("paused", false, q.Waiting, "is paused: %s", wait)
		found[0].Command = []string{"queue", "unpause", q.Name}
	case q.Workers == 0 && q.Running == 0 && silent == 0:
		if q.Oldest >= unworked {
			add("no_workers", true, q.Waiting, "has no workers: %s", wait)
		}
	case q.MaxConcurrency > 0 && q.Running >= q.MaxConcurrency:
		add("max_concurrency", q.Oldest >= late, q.Waiting,
			"is at its max-concurrency of %d: %s", q.MaxConcurrency, wait)
	case q.rated:
		add("max_rate", q.Oldest >= late, q.Waiting, "is at its max-rate: %s", wait)
	case q.Oldest >= late && q.Stalled > 0: // The expired locks are the cause.
		lateness = ", and " + wait
	case q.Oldest >= late:
		add("old", true, q.Waiting, "is late: %s", wait)
	}
	if q.unhandled != "" {
		add("no_handler", true, 0, "has jobs of the klass %s, for which no worker has a handler",
			q.unhandled)
	}
	if q.Stalled > 0 && !has(found, "no_workers") {
		add("stalled", true, q.Stalled, "has %s%s: did workers die?", expired(q.Stalled), lateness)
	}
	return found
}

// runProblems returns the problem of jobs that run and don't complete.
func (q *QueueStatus) runProblems() []Problem {
	completed, failed, retried := q.Rates.Completed, q.Rates.Failed, q.Rates.Retried
	all := completed + failed + retried
	switch {
	case failed >= failingRate && failed > failingShare*all:
		p := q.problem("failing", failed >= lostRate || failed >= lostShare*all,
			int(math.Round(failed)), "fails %.0f %% of its jobs, %s a minute",
			100*failed/all, units.Rate(failed))
		p.rate, p.Command = failed, []string{"failed", "ls"}
		return []Problem{p}
	case retried >= failingRate && retried > retriedShare*all:
		p := q.problem("retrying", retried >= lostRate && completed == 0, int(math.Round(retried)),
			"retries %.0f %% of its runs, %s a minute", 100*retried/all, units.Rate(retried))
		p.rate = retried
		return []Problem{p}
	}
	return nil
}

// jobProblems returns the problems of single jobs of the queue.
func (q *QueueStatus) jobProblems() []Problem {
	var found []Problem
	if c := q.blocked; c != nil {
		p := q.problem("failed_dependency", false, c.Jobs,
			"has %s waiting for failed ones, such as %s", count(c.Jobs, "job"), c.Blockers[0].JID)
		p.JID, p.Group = c.Blockers[0].JID, c.Blockers[0].Group
		p.Command = []string{"job", "show", p.JID}
		found = append(found, p)
	}
	if q.distant != nil {
		p := q.problem("distant", false, 0, "has a job that is not due until %s: is that intended?",
			q.distant.due.UTC().Format(time.DateOnly))
		p.JID, p.Command = q.distant.jid, []string{"job", "show", q.distant.jid}
		found = append(found, p)
	}
	return found
}

// waits describes n waiting jobs or, if n is 0, recurring jobs that are due.
func waits(n int) string {
	if n == 0 {
		return "recurring jobs are due"
	} else if n == 1 {
		return "1 job waits"
	}
	return fmt.Sprintf("%d jobs wait", n)
}

// expired counts jobs with expired locks.
func expired(n int) string {
	return verb(n, "job", "with an expired lock", "with expired locks")
}

func missed(schedule inspect.Schedule) Problem {
	return Problem{
		Code: "schedule_missed", Queue: schedule.Queue, Schedule: schedule.ID, Urgent: true,
		Command: []string{"schedule", "ls"},
		Sentence: fmt.Sprintf("schedule %s is overdue: it missed %s, and %s", schedule.ID,
			count(schedule.Overdue, "run"), followers(len(schedule.Followers))),
	}
}

func followers(n int) string {
	switch n {
	case 0:
		return "no worker follows it"
	case 1:
		return "1 worker follows it"
	}
	return fmt.Sprintf("%d workers follow it", n)
}

// passes reports whether a limit only spreads its jobs over time: its rate lets all of them start
// before they are late.
func passes(limit *inspect.LimitInfo, late time.Duration) bool {
	c := limit.Config
	if c.Rate == 0 || !limit.HeldUntil.IsZero() || c.Concurrency > 0 && limit.Used >= c.Concurrency {
		return false
	}
	return time.Duration(float64(limit.Parked)/float64(c.Rate)*float64(c.Per)) <= late
}

func fullLimit(limit *inspect.LimitInfo) Problem {
	p := Problem{
		Code:     "limit_full",
		Limit:    limit.Name,
		Jobs:     limit.Parked,
		Command:  []string{"limit", "show", limit.Name},
		Sentence: fmt.Sprintf("limit %s is full: %s for it", limit.Name, waits(limit.Parked)),
	}
	switch {
	case !limit.HeldUntil.IsZero():
		p.Sentence += ", and is held until " + limit.HeldUntil.UTC().Format(time.TimeOnly) + " UTC"
	case len(limit.Running) > 0:
		p.Sentence += fmt.Sprintf(", and %s its slots", hold(len(limit.Running)))
		p.JID = limit.Running[0]
		p.Command = []string{"job", "show", p.JID}
	}
	return p
}

func hold(n int) string {
	if n == 1 {
		return "1 job holds"
	}
	return fmt.Sprintf("%d jobs hold", n)
}
