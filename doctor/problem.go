package doctor

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/internal/units"
)

// A Problem is a cause of harm that a person should look at. If several queues share it, it is one
// problem.
type Problem struct {
	// Code is memory_full, damaged, no_workers, stalled, old, failing, failed_dependency,
	// schedule_missed, memory_low, evicts, limit_full, max_rate, max_concurrency, paused, failed or
	// distant. Programs may rely on it.
	Code string `json:"code"`

	// Queue is the queue that it harms, or of several the one that it harms most. Queues are all of
	// these, the most harmed first.
	Queue  string   `json:"queue,omitempty"`
	Queues []string `json:"queues,omitempty"`

	Limit    string `json:"limit,omitempty"`
	Schedule string `json:"schedule,omitempty"`
	Group    string `json:"group,omitempty"` // the failure group that most of the jobs are in
	Key      string `json:"key,omitempty"`   // a damaged key

	// JID is a job that holds up others: it has failed, or has a slot of a full limit. Or it is
	// distant.
	JID string `json:"jid,omitempty"`

	// Jobs is the number of jobs that wait because of it, or that fail in a minute.
	Jobs int `json:"jobs,omitempty"`

	// Urgent means that jobs will be late or lost unless an operator acts.
	Urgent bool `json:"urgent"`

	// Sentence describes it in words.
	Sentence string `json:"sentence"`

	// Command is the command of the command line that repairs it or shows more of it: its words after
	// "qless".
	Command []string `json:"command,omitempty"`

	age time.Duration // of the oldest job that waits
}

// The codes of problems, the gravest first.
var problemCodes = []string{
	"memory_full", "damaged", "no_workers", "stalled", "old", "failing", "failed_dependency",
	"schedule_missed", "memory_low", "evicts", "limit_full", "max_rate", "max_concurrency", "paused",
	"failed", "distant",
}

// ProblemCodes returns the codes of problems, the gravest first.
func ProblemCodes() []string { return slices.Clone(problemCodes) }

// The share of runs that may fail, and the number a minute, before that needs attention, and before
// it is urgent.
const (
	failingShare, failingRate = 0.1, 1
	lostShare, lostRate       = 0.5, 10
)

// unworked is for how long jobs may wait without a worker: deploys replace workers.
const unworked = time.Minute

// problems returns what needs attention: what is urgent first, then the gravest, then what harms
// most jobs.
func (s *Status) problems(late time.Duration) []Problem {
	found := slices.Concat(
		s.memoryProblems(), s.damagedKeys(), s.queueProblems(late), s.manyFailed())
	for i := range s.FullLimits {
		found = append(found, fullLimit(&s.FullLimits[i]))
	}
	for _, schedule := range s.overdue {
		found = append(found, missed(schedule))
	}
	slices.SortStableFunc(found, func(a, b Problem) int {
		if a.Urgent != b.Urgent && a.Urgent {
			return -1
		} else if a.Urgent != b.Urgent {
			return 1
		}
		return cmp.Or(
			slices.Index(problemCodes, a.Code)-slices.Index(problemCodes, b.Code), b.Jobs-a.Jobs)
	})
	return found
}

// manyFailures is the number of failed jobs from which they are told, if no more of them come.
const manyFailures = 100

// manyFailed tells of many jobs that have failed and wait for a person.
func (s *Status) manyFailed() []Problem {
	failed := s.Failed()
	if failed < manyFailures || s.failing != "" {
		return nil
	}
	largest := s.Failures[0]
	return []Problem{{
		Code: "failed", Group: largest.Name, Jobs: failed,
		Command: []string{"failed", "show", largest.Name},
		Sentence: fmt.Sprintf("%d jobs have failed and wait to be retried or canceled, %d of them in %s",
			failed, largest.Jobs, largest.Name),
	}}
}

// memoryLow is the share of the server's memory from which it is low.
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
				"a full server deletes jobs: its policy is %s, not noeviction", memory.Policy),
		})
	}
	return found
}

func (s *Status) damagedKeys() []Problem {
	var found []Problem
	for _, damaged := range s.Damaged {
		found = append(found, Problem{
			Code: "damaged", Key: damaged.Key, Queue: s.queueOf(damaged.Key), Urgent: true,
			Command: []string{"doctor"}, Sentence: fmt.Sprintf(
				"the key %s is damaged: it is a %s", damaged.Key, damaged.Kind),
		})
	}
	return found
}

// queueOf returns the queue whose jobs a key has, or the empty string.
func (s *Status) queueOf(key string) string {
	rest, isQueues := strings.CutPrefix(key, s.Namespace+"q:")
	at := strings.LastIndexByte(rest, '-')
	if !isQueues || at < 0 {
		return ""
	}
	return rest[:at]
}

// queueProblems returns the problems of queues, each cause once.
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

// shared returns the one problem of several queues.
func shared(some []Problem) Problem {
	all := some[0]
	all.Jobs = 0
	for _, p := range some {
		all.Queues = append(all.Queues, p.Queue)
		all.Jobs += p.Jobs
		all.Urgent = all.Urgent || p.Urgent
	}
	wait := fmt.Sprintf("%s, the oldest for %s", waits(all.Jobs), units.Age(all.age))
	does := map[string]string{
		"no_workers": "have no workers: " + wait,
		"stalled": fmt.Sprintf(
			"have jobs whose locks have ended, %d in all: did workers die?", all.Jobs),
		"old":               "are late: " + wait,
		"failing":           fmt.Sprintf("fail more than 10 %% of their jobs, %d a minute", all.Jobs),
		"failed_dependency": fmt.Sprintf("have jobs that wait for failed ones: %d", all.Jobs),
		"max_rate":          "start as many as they may: " + waits(all.Jobs),
		"max_concurrency":   "run as many as they may: " + waits(all.Jobs),
		"paused":            "are paused: " + wait,
		"distant":           "have jobs that are due only in a long time, such as " + all.JID,
	}[all.Code]
	all.Sentence = fmt.Sprintf("%d queues (%s) %s", len(some), list(all.Queues), does)
	return all
}

// problems returns the problems of a queue, given the number of unregistered workers.
func (q *QueueStatus) problems(late time.Duration, silent int) []Problem {
	var found []Problem
	add := func(code string, urgent bool, jobs int, sentence string, args ...any) {
		found = append(found, Problem{
			Code: code, Urgent: urgent, Jobs: jobs, Command: []string{"why", q.Name},
			Sentence: fmt.Sprintf(sentence, args...), age: q.Oldest,
		})
	}
	waiting, oldest := waits(q.Waiting), units.Age(q.Oldest)
	switch {
	case q.Waiting <= 0:
	case q.Paused:
		add("paused", false, q.Waiting, "is paused: %s, the oldest for %s", waiting, oldest)
		found[0].Command = []string{"queue", "unpause", q.Name}
	case q.Workers == 0 && q.Running == 0 && silent == 0:
		if q.Oldest >= unworked {
			add("no_workers", true, q.Waiting, "has no workers: %s, the oldest for %s", waiting, oldest)
		}
	case q.MaxConcurrency > 0 && q.Running >= q.MaxConcurrency:
		add("max_concurrency", q.Oldest >= late, q.Waiting,
			"runs as many as it may, %d: %s, the oldest for %s", q.MaxConcurrency, waiting, oldest)
	case q.rated:
		add("max_rate", q.Oldest >= late, q.Waiting,
			"starts as many as it may: %s, the oldest for %s", waiting, oldest)
	case q.Oldest >= late:
		add("old", true, q.Waiting, "is late: %s, the oldest for %s", waiting, oldest)
	}
	if q.Stalled > 0 {
		add("stalled", true, q.Stalled, "has %s whose locks have ended: did workers die?",
			count(q.Stalled, "job"))
	}
	failed, all := q.Rates.Failed, q.Rates.Completed+q.Rates.Failed+q.Rates.Retried
	if failed >= failingRate && failed > failingShare*all {
		add("failing", failed >= lostRate || failed >= lostShare*all, int(math.Round(failed)),
			"fails %.0f %% of its jobs, %s a minute", 100*failed/all, units.Rate(failed))
		found[len(found)-1].Command = []string{"failed", "ls"}
	}
	if c := q.blocked; c != nil {
		add("failed_dependency", false, c.Jobs,
			"has jobs that wait for failed ones: %d, for instance for %s", c.Jobs, c.Blockers[0].JID)
		p := &found[len(found)-1]
		p.JID, p.Group = c.Blockers[0].JID, c.Blockers[0].Group
		p.Command = []string{"job", "show", p.JID}
	}
	if q.distant != nil {
		add("distant", false, 0, "%s", q.distant.sentence())
		p := &found[len(found)-1]
		p.JID, p.Command = q.distant.jid, []string{"job", "show", q.distant.jid}
	}
	return found
}

func waits(n int) string {
	if n == 1 {
		return "1 job waits"
	}
	return fmt.Sprintf("%d jobs wait", n)
}

func missed(schedule inspect.Schedule) Problem {
	return Problem{
		Code: "schedule_missed", Queue: schedule.Queue, Schedule: schedule.ID, Urgent: true,
		Command: []string{"schedule", "ls"},
		Sentence: fmt.Sprintf("schedule %s is overdue: %s passed without a job, and %s", schedule.ID,
			count(schedule.Overdue, "time"), followers(len(schedule.Followers))),
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
		p.Sentence += ", and it is held until " + limit.HeldUntil.UTC().Format(time.TimeOnly) + " UTC"
	case len(limit.Running) > 0:
		p.Sentence += fmt.Sprintf(", and %s its slots", has(len(limit.Running)))
		p.JID = limit.Running[0]
		p.Command = []string{"job", "show", p.JID}
	}
	return p
}

func has(n int) string {
	if n == 1 {
		return "1 job has"
	}
	return fmt.Sprintf("%d jobs have", n)
}
